"""The page at / in a headless Chromium: with a model, and with a server that says what a test has written.

    page_browser_test.py PROGRAM MODEL      exit code 77: this machine has no browser
"""
import json
import pathlib
import re
import sys
import tempfile
import unittest

import browser
import scripted_server
import served
from scripted_server import CUT, HOLD, delta, end

PROGRAM = MODEL = None
WEATHER = [{"name": "get_weather", "description": "Weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 16}},
                           "required": ["city"], "additionalProperties": False}}]
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}, "age": {"type": "integer", "maximum": 99,
          "minimum": 1}}, "required": ["name", "age"], "additionalProperties": False}
HOSTILE = ('<img src="x" onerror="document.title=\'taken\'"><script>document.title="taken"</script>\n\n'
           '[press](javascript:document.title="taken") ![picture](http://127.0.0.1:9/picture.png) '
           '`<b>code</b>` **<i>bold</i>**\n\n```html\n<iframe src="//127.0.0.1:9"></iframe>\n```')
MARKDOWN = """# Colours

Three *primary* colours, with `code` and snake_case_words:

1. red
2. yellow
   - like the **sun**
3. blue

| colour | wave length |
| --- | --- |
| red | 700 nm |

```python
if red < blue:
    print("**no**")
```

> quoted
"""


def setUpModule():
    global FOLDER, SERVER, BROWSER, SCRIPTED
    FOLDER = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(FOLDER.cleanup)
    keys = pathlib.Path(FOLDER.name, "keys")
    keys.write_text("right-key\n")
    SERVER = unittest.enterModuleContext(served.Served(PROGRAM, MODEL, "--tp", 2, "--threads", 1, "--batch-size", 2,
                                                       "--max-seq-len", 8192, "--api-key-file", keys))
    BROWSER = unittest.enterModuleContext(browser.Browser())
    connection = SERVER.connect()
    connection.request("GET", "/")
    answer = connection.getresponse()
    headers = {name: answer.headers[name] for name in ("Content-Type", "Content-Security-Policy")}
    SCRIPTED = scripted_server.ScriptedServer(answer.read(), headers)
    connection.close()
    unittest.addModuleCleanup(SCRIPTED.close)


class PageTest(unittest.TestCase):
    """One page, loaded again for each test."""

    def load(self, url, key=""):
        BROWSER.open(url)
        if key:
            BROWSER.run("sessionStorage.setItem('lockstep-key', arguments[0]); lookNow()", key)

    def tearDown(self):
        BROWSER.run("sessionStorage.clear()")
        self.assertEqual([words for words in BROWSER.complaints() if re.search("Policy|Trusted|Uncaught|Error:", words)], [])

    def settings(self, **values):
        BROWSER.run("""
            const form = document.querySelector('#settings-form');
            for (const [name, value] of Object.entries(arguments[0])) {
              if (form.elements[name].type === 'checkbox') form.elements[name].checked = value;
              else form.elements[name].value = value;
            }
            form.dispatchEvent(new Event('input'));""", values)

    def say(self, text):
        BROWSER.find("#prompt").write(text)
        BROWSER.press("Enter")

    def said(self):
        return BROWSER.text("#turns > li:last-child .said")

    def wait_for_end(self):
        BROWSER.until_script("!document.querySelector('#send').hidden && !document.querySelector('[aria-busy=true]')",
                             "the end of the answer")

    def wait_for_text(self, selector, text):
        BROWSER.until(lambda: text in BROWSER.text(selector), f"'{text}' in {selector}")


class WithAModel(PageTest):
    def setUp(self):
        self.load(SERVER.url, "right-key")

    def test_a_wrong_key_is_refused_in_words_and_a_right_one_is_kept(self):
        BROWSER.run("sessionStorage.clear()")
        self.load(SERVER.url)
        BROWSER.until(lambda: BROWSER.find("#key-form").is_shown, "the field for the key")
        BROWSER.find("#key").write("wrong-key")
        BROWSER.find("#key-form button").click()
        self.wait_for_text("#key-error", "The server refused the key.")
        self.say("Hello")
        self.wait_for_text("#turns .failure", "The server refused the key.")
        BROWSER.find("#key").write("right-key")
        BROWSER.find("#key-form button").click()
        self.wait_for_text("#state", "ready")
        BROWSER.open(SERVER.url)
        self.wait_for_text("#state", "ready")
        self.assertFalse(BROWSER.find("#key-form").is_shown)
        self.assertEqual(BROWSER.text("#model"), pathlib.Path(MODEL).name)

    def test_an_answer_streams_is_seen_in_its_slot_and_stops(self):
        self.settings(temperature=0, max_tokens=7000, more='{"ignore_eos": true}')
        self.say("Tell me a long story.")
        begin = BROWSER.until(self.said, "the first text")
        BROWSER.until(lambda: len(self.said()) > len(begin), "more text")
        request = BROWSER.until_script("document.querySelector('#slots > li.own')?.dataset.request", "the slot of this chat")
        self.assertTrue(request.startswith("req_"), request)
        slot = BROWSER.until(lambda: BROWSER.text("#slots > li.own"), "the slot's words")
        self.assertIn("this chat", slot)
        self.assertIn(request, slot)
        BROWSER.until_script("[...document.querySelectorAll('#ranks > li')].filter((row) => /ready.*MiB/.test(row.textContent))"
                             ".length === 2", "two ranks with their memory")
        BROWSER.until_script("document.querySelectorAll('#steps g.decode').length > 1", "steps in the drawing")
        BROWSER.until_script("parseFloat(document.querySelector('#rate').textContent) > 0", "tokens per second")
        self.assertTrue(BROWSER.find("#stop").is_shown)
        BROWSER.find("#stop").click()
        self.wait_for_text("#turns > li:last-child .note", "Stopped.")
        text = self.said()
        BROWSER.until_script("document.querySelectorAll('#slots > li.busy').length === 0", "a free slot")
        self.assertEqual(self.said(), text)
        self.assertTrue(BROWSER.find("#send").is_shown)

    def test_a_tool_call_is_shown_and_its_result_goes_back(self):
        self.settings(temperature=0, max_tokens=80, tools=json.dumps(WEATHER), tool_choice="required",
                      more='{"parallel_tool_calls": false}')
        self.say("Weather in Oslo?")
        self.wait_for_end()
        self.assertEqual(BROWSER.text("#turns .call .title"), "Calls get_weather")
        self.assertEqual(list(json.loads(BROWSER.text("#turns .call pre"))), ["city"])
        BROWSER.find("#turns .call textarea").write("rain")
        BROWSER.find("#turns .call button").click()
        BROWSER.until_script("document.querySelectorAll('#turns > li.assistant').length === 2", "the next answer")
        self.wait_for_end()
        self.assertIn("rain", BROWSER.text("#turns > li.tool"))
        self.assertRegex(BROWSER.text("#turns > li:last-child .usage"), r"prompt of \d+ tokens, [1-9]\d* from the cache")

    def test_a_json_answer_is_laid_out(self):
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
        self.settings(temperature=0, max_tokens=100, more=json.dumps({"response_format": form}))
        self.say("A person as JSON.")
        self.wait_for_end()
        shown = BROWSER.text("#turns > li:last-child pre.json")
        self.assertEqual(shown, json.dumps(json.loads(shown), indent=2, ensure_ascii=False))
        self.assertEqual(set(json.loads(shown)), {"name", "age"})

    def test_what_the_server_refuses_is_a_sentence(self):
        self.settings(temperature=99, more='{"best_of": 3}')
        self.say("Hello")
        self.wait_for_text("#turns .failure", "The server refused the request.")
        self.assertIn("best_of", BROWSER.text("#turns .failure"))


class Scripted(PageTest):
    def setUp(self):
        SCRIPTED.scripts, SCRIPTED.bodies, SCRIPTED.status = [], [], scripted_server.status()
        self.load(SCRIPTED.url)

    def answer(self, *script):
        SCRIPTED.scripts.append(list(script))

    def test_text_is_shown_before_the_answer_ends(self):
        self.answer(delta(content="Hello"), HOLD, delta(content=", world"), *end(prompt=30, new=4, cached=16))
        self.say("Hi")
        BROWSER.until(lambda: self.said() == "Hello", "the first piece")
        self.assertEqual(BROWSER.find("#turns > li:last-child").attribute("aria-busy"), "true")
        SCRIPTED.release()
        self.wait_for_end()
        self.assertEqual(self.said(), "Hello, world")
        usage = BROWSER.text("#turns > li:last-child .usage")
        for words in ("complete · 4 tokens", "prompt of 30 tokens, 16 from the cache"):
            self.assertIn(words, usage)

    def test_escape_stops_an_answer_that_would_never_end(self):
        self.answer(delta(content="Hello"), HOLD)
        self.say("Hi")
        BROWSER.until(self.said, "the first piece")
        BROWSER.press("Escape")
        self.wait_for_text("#turns .note", "Stopped.")
        SCRIPTED.release()
        self.answer(delta(content="Again"), *end())
        BROWSER.find("#turns .again").click()
        self.wait_for_end()
        self.assertEqual(self.said(), "Again")
        self.assertEqual(BROWSER.run("return document.querySelectorAll('#turns > li').length"), 2)
        self.assertEqual(SCRIPTED.bodies[1]["messages"], [{"role": "user", "content": "Hi"}])

    def test_reasoning_is_apart_and_folds_with_the_answer(self):
        self.answer(delta(reasoning_content="Let me think."), HOLD, delta(content="42"), *end(reasoning=3))
        self.say("Hi")
        BROWSER.until(lambda: BROWSER.find("details.reasoning").text == "Reasoning\nLet me think.", "open reasoning")
        SCRIPTED.release()
        self.wait_for_end()
        self.assertEqual(BROWSER.find("details.reasoning").text, "Reasoning")
        self.assertEqual(self.said(), "42")
        self.assertIn("3 of reasoning", BROWSER.text("#turns .usage"))

    def test_what_a_model_writes_is_never_markup(self):
        self.answer(delta(content=HOSTILE), *end())
        self.say(HOSTILE.split("\n", maxsplit=1)[0])
        self.wait_for_end()
        self.assertEqual(BROWSER.run("return document.querySelectorAll("
                                     "'#turns :is(img, script, iframe, i, b, [onerror])').length"), 0)
        self.assertEqual(BROWSER.run("return [...document.querySelectorAll('#turns a')].map((link) => link.href)"),
                         ["http://127.0.0.1:9/picture.png"])
        self.assertIn('onerror="document.title', self.said())
        self.assertEqual(BROWSER.text("#turns strong"), "<i>bold</i>")
        self.assertEqual(BROWSER.text("#turns pre code"), '<iframe src="//127.0.0.1:9"></iframe>')
        self.assertEqual(BROWSER.run("return document.title"), "tiny · lockstep")

    def test_markdown_becomes_elements(self):
        self.answer(*[delta(content=piece) for piece in re.findall(r"(?s).{1,7}", MARKDOWN)], *end())
        self.say("Hi")
        self.wait_for_end()
        for selector, text in (("h3", "Colours"), ("em", "primary"), ("p code", "code"), ("ol > li:nth-child(3)", "blue"),
                               ("ol > li ul strong", "sun"), ("th:nth-child(2)", "wave length"), ("td", "red"),
                               ("pre code", 'if red < blue:\n    print("**no**")'), ("blockquote", "quoted")):
            self.assertEqual(BROWSER.text(f"#turns .said {selector}"), text)
        self.assertIn("snake_case_words", self.said())

    def test_errors_are_sentences_and_the_text_so_far_stays(self):
        for script, sentence, detail in (
                ((429, "retry later"), "The server's queue is full. Try again in a moment.", "retry later"),
                ((503, "rank 1 is lost"), "The server cannot answer now.", "rank 1 is lost"),
                ([delta(content="So far"), {"error": {"message": "rank 1 is lost"}}], "The answer broke off.", "rank 1 is lost"),
                ([delta(content="So far"), CUT], "The connection ended before the answer.", "")):
            with self.subTest(sentence):
                BROWSER.find("#new-chat").click()
                SCRIPTED.scripts.append(script)
                self.say("Hi")
                self.wait_for_end()
                self.assertEqual(BROWSER.text("#turns .failure"), sentence + detail)
                self.assertEqual(self.said(), "So far" if isinstance(script, list) else "")

    def test_the_settings_are_fields_of_the_request(self):
        self.settings(system="Be short.", temperature="0.5", top_p="0.9", max_tokens="7", seed="3", json=True,
                      tools=json.dumps(WEATHER), tool_choice="required", more='{"top_k": 40}')
        self.answer(delta(content='{"a": [1, "b", null]}'), *end())
        self.say("Hi")
        self.wait_for_end()
        body = SCRIPTED.bodies[0]
        self.assertEqual({name: body[name] for name in body if name not in ("stream", "stream_options")}, {
            "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}], "temperature": 0.5,
            "top_p": 0.9, "max_tokens": 7, "seed": 3, "response_format": {"type": "json_object"},
            "tools": [{"type": "function", "function": WEATHER[0]}], "tool_choice": "required", "top_k": 40})
        self.assertEqual(BROWSER.text("#turns pre.json"), '{\n  "a": [\n    1,\n    "b",\n    null\n  ]\n}')
        BROWSER.open(SCRIPTED.url)  # they stay in the tab
        self.assertIn("temperature 0.5", BROWSER.text("#active"))

    def test_wrong_settings_are_named_and_not_sent(self):
        self.settings(tools="[1")
        self.say("Hi")
        BROWSER.until(lambda: BROWSER.find("#settings").is_shown, "the settings")
        self.assertIn("This is not JSON", BROWSER.find("#tools-error").text)
        self.assertEqual(SCRIPTED.bodies, [])

    def test_all_results_of_tools_go_back_together(self):
        self.answer(delta(tool_calls=[{"index": 0, "id": "call_1", "type": "function",
                                       "function": {"name": "get_weather", "arguments": ""}}]),
                    delta(tool_calls=[{"index": 0, "function": {"arguments": '{"city": "Oslo"}'}}]),
                    delta(tool_calls=[{"index": 1, "id": "call_2", "type": "function",
                                       "function": {"name": "get_time", "arguments": "{}"}}]), *end("tool_calls"))
        self.answer(delta(content="Rain at noon."), *end())
        self.say("Hi")
        self.wait_for_end()
        for name, result in (("get_time", "noon"), ("get_weather", "rain")):
            form = f"//form[.//label[contains(., '{name}')]]"
            BROWSER.run("document.evaluate(arguments[0], document, null, 9, null).singleNodeValue.querySelector('textarea')"
                        ".value = arguments[1]", form, result)
            BROWSER.run("document.evaluate(arguments[0], document, null, 9, null).singleNodeValue.requestSubmit()", form)
        BROWSER.until(lambda: self.said() == "Rain at noon.", "the answer with the results")
        self.assertEqual([(message["role"], message.get("tool_call_id"), message["content"])
                          for message in SCRIPTED.bodies[1]["messages"]],
                         [("user", None, "Hi"), ("assistant", None, None), ("tool", "call_1", "rain"), ("tool", "call_2", "noon")])

    def test_the_engines_state_is_shown(self):
        busy = {"request": "req_other", "endpoint": "/v1/messages", "tokens": 96, "new_tokens": 0, "most_tokens": 400}
        kept = {"request": None, "endpoint": None, "tokens": 50, "new_tokens": 0, "most_tokens": None}
        steps = [{"number": 7, "kind": "prefill", "rows": 64, "seconds": 0.2, "age_s": 9.0},
                 {"number": 8, "kind": "decode", "rows": 2, "seconds": 0.05, "age_s": 0.1}]
        waiting = {"id": "req_late", "endpoint": "/v1/responses", "state": "waiting", "slots": [], "choices": 1, "prompt_tokens": 12,
                   "new_tokens": 0, "most_tokens": 20, "age_s": 3.0}
        SCRIPTED.status = scripted_server.status(
            state="stalled", running=1, queue=1, restarts=2, prompt_tokens=200, cached_tokens=50, requests=[waiting], steps=steps,
            ranks=[{"rank": 0, "state": "ready", "resident_bytes": 200 << 20}, {"rank": 1, "state": "lost", "resident_bytes": 0}],
            slots=[{"slot": 0, "state": "prefill", **busy}, {"slot": 1, "state": "kept", **kept}])
        self.wait_for_text("#state", "stalled")
        for selector, text in (("#running", "1 of 2 slots"), ("#queue", "1 sequence"), ("#cache", "25 % of 200"),
                               ("#restarts", "2"), ("#slots > li:nth-child(1)", "0prefill/v1/messages96 of 400req_other"),
                               ("#slots > li:nth-child(2)", "1keptcan be reused50 tokens"), ("#ranks > li:nth-child(2)", "1lost–"),
                               ("#waiting", "/v1/responses12 tokens, 3.0 sreq_late"),
                               ("#steps g.prefill title", "Step 7: prefill, 64 rows, 200 ms, 9.0 s ago")):
            self.assertEqual(BROWSER.text(selector), text)
        BROWSER.find("#steps-table summary").click()
        BROWSER.until(lambda: BROWSER.text("#steps-table tbody tr") == "8decode250 ms100 ms ago", "the table of steps")

    def test_a_hidden_tab_asks_for_nothing_until_it_is_seen(self):
        self.wait_for_text("#state", "ready")
        hide = "Object.defineProperty(document, 'hidden', {get: () => arguments[0], configurable: true});"
        BROWSER.run(hide.replace("arguments[0]", "true") + "document.dispatchEvent(new Event('visibilitychange'))")
        BROWSER.until_script("nextLook === null && !isLooking", "no look that is under way or planned")
        looks = SCRIPTED.looks
        BROWSER.run(hide.replace("arguments[0]", "false") + "document.dispatchEvent(new Event('visibilitychange'))")
        BROWSER.until(lambda: SCRIPTED.looks > looks + 1, "the next looks")

    def test_a_server_that_is_gone_is_noticed(self):
        gone = scripted_server.ScriptedServer(SCRIPTED.page, SCRIPTED.headers)
        self.load(gone.url)
        self.wait_for_text("#state", "ready")
        gone.close()
        self.wait_for_text("#state", "no answer")
        self.assertEqual(BROWSER.find("#live-note").text, "The server cannot be reached.")
        self.say("Hi")
        self.wait_for_text("#turns .failure", "The server cannot be reached.")

    def test_a_narrow_window_shows_one_view_at_a_time_and_never_scrolls_sideways(self):
        self.addCleanup(BROWSER.show_as, 1280, 900, "light")
        self.answer(delta(content=f"{MARKDOWN}\n{'long' * 60}\n\n```\n{'wide ' * 60}\n```"), *end())
        self.say("Hi")
        self.wait_for_end()
        for width in (1280, 390):
            BROWSER.show_as(width, 844, "dark")
            self.assertEqual(BROWSER.run("return document.documentElement.scrollWidth"), width)
        self.assertEqual([BROWSER.find("#chat").is_shown, BROWSER.find("#engine").is_shown], [True, False])
        BROWSER.find("#views [data-view=engine]").click()
        self.assertEqual([BROWSER.find("#chat").is_shown, BROWSER.find("#engine").is_shown], [False, True])
        self.assertEqual(BROWSER.run("return document.documentElement.scrollWidth"), 390)

    def test_every_control_has_a_name_and_the_keyboard_reaches_it(self):
        unnamed = BROWSER.run("""
            return [...document.querySelectorAll('button, input, textarea, select')].filter((control) =>
              !(control.labels?.length || control.getAttribute('aria-label') || control.textContent.trim())).map((one) => one.id)""")
        self.assertEqual(unnamed, [])
        reached = []
        for _ in range(4):
            BROWSER.press("Tab")
            reached.append(BROWSER.run("return document.activeElement.id"))
        self.assertIn("send", reached)
        BROWSER.find("#open-settings").click()
        self.assertTrue(BROWSER.run("return document.querySelector('#settings').contains(document.activeElement)"))
        BROWSER.press("Escape")
        self.assertFalse(BROWSER.find("#settings").is_shown)
        self.assertEqual(BROWSER.run("return document.activeElement.id"), "prompt")


if __name__ == "__main__":
    if browser.missing():
        print(f"skipped: found no {browser.missing()}; install it, or run scripts/setup browser")
        sys.exit(77)
    PROGRAM, MODEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
