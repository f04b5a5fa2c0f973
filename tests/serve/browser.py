"""A headless Chromium for tests of pages, driven over WebDriver (w3.org/TR/webdriver2) with plain HTTP."""
import base64
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

DEADLINE = 120  # seconds of any wait; only a hang gets there
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the standard's name for a reference to an element
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Shift": "\ue008"}


def missing():
    """What this machine lacks, in words; empty: nothing."""
    return " and ".join(f"{program} (Debian: {package})" for program, package in
                        (("chromium", "chromium"), ("chromedriver", "chromium-driver")) if shutil.which(program) is None)


class Element:
    def __init__(self, browser, reference):
        self.browser, self.path = browser, f"element/{reference[ELEMENT]}"

    def click(self):
        self.browser.command("POST", f"{self.path}/click", {})

    def write(self, text):
        self.browser.command("POST", f"{self.path}/value", {"text": text})

    def replace(self, text):
        self.browser.command("POST", f"{self.path}/clear", {})
        self.write(text)

    @property
    def text(self):
        """As it is rendered; empty: hidden."""
        return self.browser.command("GET", f"{self.path}/text")

    @property
    def is_shown(self):
        return self.browser.command("GET", f"{self.path}/displayed")

    def attribute(self, name):
        return self.browser.command("GET", f"{self.path}/attribute/{name}")


def start_driver(tries=5):
    """(a chromedriver, its port). It chooses a port of IPv6, and ends where that is not free for IPv4."""
    for _ in range(tries):
        driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  stdin=subprocess.DEVNULL, text=True)
        said = []
        for line in driver.stdout:
            if "started successfully on port" in line:
                return driver, int(line.rstrip(".\n").rsplit(" ", 1)[1])
            said.append(line)
        driver.wait()
        driver.stdout.close()
    raise AssertionError(f"chromedriver ended {tries} times, at last with: {''.join(said)}")


class Browser:
    """One window. Ends the browser and its driver with the block."""

    def __init__(self, width=1280, height=900):
        self.profile = tempfile.TemporaryDirectory()
        self.driver, self.port = start_driver()
        # The profile's folder is the test's own; without it two browsers of a user disturb each other.
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                     f"--user-data-dir={self.profile.name}", f"--window-size={width},{height}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # Chromium's sandbox refuses root
        self.session = ""
        made = self.command("POST", "", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = made["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.command("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(DEADLINE)
            self.driver.stdout.close()
            self.profile.cleanup()

    def command(self, method, path, body=None):
        """The value that WebDriver answers with."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            place = "/".join(part for part in ("/session", self.session, path) if part)
            connection.request(method, place, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            value = json.loads(answer.read())["value"]
            if answer.status != 200:
                raise AssertionError(f"{method} {path}: {value['error']}: {value['message']}")
            return value
        finally:
            connection.close()

    def open(self, url):
        self.command("POST", "url", {"url": url})

    def find(self, selector):
        return Element(self, self.command("POST", "element", {"using": "css selector", "value": selector}))

    def find_all(self, selector):
        found = self.command("POST", "elements", {"using": "css selector", "value": selector})
        return [Element(self, reference) for reference in found]

    def run(self, script, *arguments):
        """What the body of a function returns; `arguments` are its."""
        return self.command("POST", "execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector):
        """The text of an element, shown or not; empty: there is none."""
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def press(self, key):
        actions = [{"type": "keyDown", "value": KEYS[key]}, {"type": "keyUp", "value": KEYS[key]}]
        self.command("POST", "actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def until(self, condition, words):
        """The first true value of `condition`, which is called until the deadline."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"waited {DEADLINE} s for {words}; the page says: {self.find('body').text}")

    def until_script(self, script, words):
        return self.until(lambda: self.run(f"return {script}"), words)

    def develop(self, command, **parameters):
        """A command of Chromium's own protocol, such as the emulation of another screen."""
        return self.command("POST", "goog/cdp/execute", {"cmd": command, "params": parameters})

    def show_as(self, width, height, scheme):
        """Another size of the window's inside, and "light" or "dark"."""
        self.develop("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.develop("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.command("GET", "screenshot")))

    def complaints(self):
        """What the browser's console said since the last call, such as violations of the page's policy."""
        return [entry["message"] for entry in self.command("POST", "se/log", {"type": "browser"})]
