"""The servers of examples/cluster: systemd's unit and the MPI operator's manifest, which are read, and run on this host.

    cluster_examples_test.py PROGRAM        run by the Python of .venv-clients, which reads YAML
"""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

import yaml

import served

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import launches  # noqa: E402
import test_folder  # noqa: E402
import tiny_model  # noqa: E402

PROGRAM = None
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "cluster"


def unit():
    """{name: value} of the unit's section [Service]."""
    section = (FOLDER / "lockstep-serve.service").read_text().partition("[Service]")[2].partition("[Install]")[0]
    lines = section.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def manifest():
    return {document["kind"]: document for document in yaml.safe_load_all((FOLDER / "serve-mpijob.yaml").read_text())}


class Examples(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = tiny_model.write(cls.folder / "model")
        tiny_model.write_tokenizer(cls.model)
        cls.keys = cls.folder / "keys"
        cls.keys.write_text("open-sesame\n")
        help_text = subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        cls.options = set(re.findall(r"--[a-z][\w-]*", help_text))

    def expect_a_server(self, words):
        """`words` with this machine's files and a free port serve to those who have the key, until they get SIGTERM."""
        at = words.index("serve") - 1  # the program
        given = {name for name in words[at:] if name.startswith("--")}
        self.assertLessEqual(given, self.options)
        before, options = words[:at], words[at + 2:]
        options[options.index("--api-key-file") + 1] = self.keys
        for option in ("--model", "--port"):
            place = options.index(option)
            del options[place:place + 2]
        with served.Served(PROGRAM, self.model, *options, "--threads", 1, before=before,
                           environment=launches.environment()) as server:
            self.assertEqual(server.get("/v1/models")[0], 401)
            self.assertEqual(server.call("GET", "/v1/models", headers={"Authorization": "Bearer open-sesame"})[0], 200)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(served.DEADLINE)
        return server.process.returncode

    def test_the_unit_serves(self):
        service = unit()
        values = dict(word.split("=", 1) for word in service["Environment"].split())
        text = service["ExecStart"].replace("${CREDENTIALS_DIRECTORY}", str(self.folder))
        for name, value in values.items():
            text = text.replace(f"${{{name}}}", value)
        self.assertNotIn("${", text)
        self.assertEqual(self.expect_a_server(shlex.split(text)), 0)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_systemd_accepts_the_unit(self):
        copy = self.folder / "lockstep-serve.service"
        copy.write_text((FOLDER / "lockstep-serve.service").read_text().replace("/usr/local/bin/lockstep", PROGRAM))
        done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_the_manifests_command_serves(self):
        pod = manifest()["MPIJob"]["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
        container, = pod["containers"]
        command = container["command"]
        patience = command.index("odls_base_sigkill_timeout") + 1
        self.assertLess(int(command[command.index("--drain-s") + 1]), int(command[patience]))
        self.assertLess(int(command[patience]), pod["terminationGracePeriodSeconds"])
        command[patience] = "1"  # mpirun waits so long, even for ranks that have ended
        command[1:1] = launches.CROWDED
        self.expect_a_server(command)

    def test_the_manifest_mounts_what_its_command_reads(self):
        documents = manifest()
        replicas = documents["MPIJob"]["spec"]["mpiReplicaSpecs"]
        command = replicas["Launcher"]["template"]["spec"]["containers"][0]["command"]
        pod = replicas["Worker"]["template"]["spec"]
        container, = pod["containers"]
        self.assertEqual(command[command.index("-n") + 1], str(replicas["Worker"]["replicas"]))
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        self.assertEqual(set(mounts), {volume["name"] for volume in pod["volumes"]})
        for option, name in (("--model", "models"), ("--api-key-file", "keys")):
            self.assertTrue(command[command.index(option) + 1].startswith(mounts[name] + "/"))
        port, = documents["Service"]["spec"]["ports"]
        self.assertEqual(str(port["targetPort"]), command[command.index("--port") + 1])

    def leave_host(self, start, seconds):
        """Runs leave-host.sh where the only processes are those that the shell command `start` starts."""
        script = f"cd {shlex.quote(str(self.folder))} && {start} sleep 0.2; {FOLDER / 'leave-host.sh'} {seconds}"
        own = ("unshare", "--pid", "--mount-proc", "--fork")
        if subprocess.run([*own, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this machine refuses process namespaces")
        return subprocess.run([*own, "sh", "-c", script], capture_output=True, text=True, timeout=served.DEADLINE, check=False)

    def test_a_host_is_left_when_its_ranks_have_gone(self):
        rank = self.folder / "lockstep"  # its name is all that counts
        for what_it_does, seconds, code, words in (("sleep 1; exit 0", 60, 0, ""), (":", 1, 1, "ranks are still here")):
            rank.write_text(f"#!/bin/sh\ntrap '{what_it_does}' TERM\nwhile :; do sleep 0.1; done\n")
            rank.chmod(0o755)
            done = self.leave_host("./lockstep &", seconds)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.leave_host("", 60).stderr, "leave-host: no ranks here\n")

    def test_ranks_start_on_the_hosts_that_are_left(self):
        hosts, mpirun = self.folder / "hosts.txt", self.folder / "mpirun"
        hosts.write_text("# of the test\na slots=2\n\nb\nc  slots=3\n")
        mpirun.write_text("#!/bin/sh\necho \"$@\"\n")
        mpirun.chmod(0o755)
        for words, expected in ((("6", "prog", "-x"), "--host a:2,b:1,c:3 -n 6 --bind-to none prog -x"),
                                (("3", "--without=c", "prog"), "--host a:2,b:1 -n 3 --bind-to none prog"),
                                (("2", "--without=b,c", "prog"), "--host a:2 -n 2 --bind-to none prog")):
            done = subprocess.run([FOLDER / "ranks-on-hosts.sh", hosts, *words], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "NETWORK": ""})
            self.assertEqual(done.stdout.strip(), expected, done.stderr)

    def test_the_batch_script_has_options_of_the_server(self):
        script = FOLDER / "serve.sbatch"
        subprocess.run(["bash", "-n", script], check=True)
        server = script.read_text().partition("serve --tp")[2].partition("--launcher")[0]
        self.assertLessEqual(set(re.findall(r"--[a-z][\w-]*", server)), self.options)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
