"""Machines that lack something: a run works all the same, or says what is missing.

    bad_machine_test.py PROGRAM

The environment has LOCKSTEP_JUMPING_CLOCK and LOCKSTEP_SLOW_READS: jumping_clock.cpp and slow_reads.cpp as shared
libraries.
"""
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import unittest
import urllib.parse

import launches
import tiny_model
import waiting

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
import served  # noqa: E402

WITHOUT_SHARED_MEMORY = "mount -t tmpfs -o ro tmpfs /dev/shm"
SMALL_SHARED_MEMORY = "mount -t tmpfs -o size=64k tmpfs /dev/shm"
FULL_DISK = ("mount --bind {0} {0}.before && mount -t tmpfs -o size=256k tmpfs {0} && cp -r {0}.before/. {0} && "
             "cat /dev/zero > {0}/fill 2> /dev/null; ")
WITHOUT_IPV4 = "ip link set lo up && ip -4 address flush dev lo"


@contextlib.contextmanager
def busy_cores(programs):
    """Within it, as many programs use all the processor time that they get."""
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(programs)]
    try:
        yield
    finally:
        for program in busy:
            program.kill()
            program.wait()


class BadMachine(launches.Launches):
    def run_on(self, name, change, *more, namespaces=("--mount",), ranks=2, tokens=12):
        """The finished run of two processes on a machine of its own that the shell command `change` has changed."""
        program = [launches.PROGRAM, *self.arguments(name, *more, tokens=tokens)]
        program += ["--launch", "processes", "--tp", str(ranks)] if ranks > 1 else []
        words = ["unshare", *namespaces, "sh", "-c", f"{change} || exit 99\nexec {shlex.join(program)}"]
        return self.run_command(words)

    def run_command_on_full_disk(self, folder, *words):
        """(the finished command, the files that `folder` then has): it has no room beyond what it had."""
        pathlib.Path(f"{folder}.before").mkdir()
        command = shlex.join(map(str, (launches.PROGRAM, *words)))
        script = FULL_DISK.format(shlex.quote(str(folder))) + f"{command}; code=$?; echo; echo files:; "
        script += f"cd {shlex.quote(str(folder))} && find . -type f | sort; exit $code"
        done = self.run_command(["unshare", "--mount", "sh", "-c", script])
        return done, done.stdout.rpartition("\nfiles:\n")[2].split()

    def expect_error(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stdout)
        self.expect_words(done, *words)

    def test_ranks_share_memory_without_a_folder_for_it(self):
        self.expect_tokens(self.run_on("no-shm", WITHOUT_SHARED_MEMORY), "no-shm", 2)

    def test_too_little_shared_memory_is_told_with_what_to_do(self):
        done = self.run_on("small-shm", SMALL_SHARED_MEMORY)
        self.expect_error(done, 7, "/dev/shm is too small: found 64.00 KiB free", "--shm-size")

    def test_one_address_of_ipv6_is_enough(self):
        done = self.run_on("ipv6", WITHOUT_IPV4, namespaces=("--net",))
        self.expect_tokens(done, "ipv6", 2)

    def test_no_network_at_all_is_told(self):
        done = self.run_on("no-net", "true", namespaces=("--net",))
        self.expect_error(done, 4, "rank 0: cannot listen on", "its interface is up")

    def test_a_host_name_that_nothing_resolves_does_not_matter(self):
        done = self.run_on("no-name", "hostname no-such-host", namespaces=("--uts",))
        self.expect_tokens(done, "no-name", 2)

    def test_files_that_may_be_opened(self):
        self.expect_tokens(self.run_on("files-64", "ulimit -n 64"), "files-64", 2)
        self.expect_error(self.run_on("files-12", "ulimit -n 12"), 4, "found a limit of 12 open files", "ulimit -n")

    def test_nothing_in_sys_and_no_control_groups(self):
        self.expect_tokens(self.run_on("no-sys", "mount -t tmpfs tmpfs /sys"), "no-sys", 2)

    def test_one_core(self):
        self.expect_tokens(self.run_on("one-core", "taskset -pc 0 $$ > /dev/null"), "one-core", 2)

    @unittest.skipIf(waiting.HAS_SANITIZER, "the sanitizer reads /proc")
    def test_no_proc(self):
        self.expect_tokens(self.run_on("no-proc-1", "mount -t tmpfs tmpfs /proc", ranks=1), "no-proc-1", 1)
        done = self.run_on("no-proc", "mount -t tmpfs tmpfs /proc")
        self.expect_error(done, 4, "found no /proc/self/exe", "mount it")

    def test_a_clock_that_jumps_by_hours(self):
        jumping = {"LD_PRELOAD": os.environ["LOCKSTEP_JUMPING_CLOCK"]}
        looks = self.run_command(["python3", "-c", "import time; print(*(int(time.time()) for _ in range(7)))"], jumping)
        self.assertGreater(len({int(look) // 1800 for look in looks.stdout.split()}), 3, looks.stdout)  # it does jump
        program = [launches.PROGRAM, *self.arguments("jumps", "--trace", self.folder / "jumps.trace")]
        done = self.run_command([*program, "--launch", "processes", "--tp", "2"],
                                jumping)
        self.expect_tokens(done, "jumps", 2)
        timings = self.answer("jumps")["timings"]
        self.assertTrue(all(0 <= seconds < launches.DEADLINE for seconds in timings["token_latencies_s"][0]), timings)

    def test_an_interrupt_ends_a_run_that_waits_for_a_slow_disk(self):
        for name, more in (("alone", ()), ("threads", ("--launch", "threads", "--tp", "2"))):
            with self.subTest(ranks=name):
                records, log = self.folder / f"slow-{name}", self.folder / f"slow-{name}.log"
                records.mkdir()
                words = [launches.PROGRAM, *self.arguments(f"slow-{name}", "--exit-record", records, *more)]
                with open(log, "w") as output, subprocess.Popen(
                        list(map(str, words)), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                        env={**launches.environment(), "LD_PRELOAD": os.environ["LOCKSTEP_SLOW_READS"]}) as run:
                    self.assertTrue(waiting.until(lambda: "prefill chunks of" in log.read_text()), log.read_text())
                    run.send_signal(signal.SIGINT)
                    self.assertEqual(run.wait(launches.DEADLINE), 130, log.read_text())
                self.assertIn("interrupted", log.read_text())
                self.assertEqual({json.loads(record.read_text())["code"] for record in records.iterdir()}, {130})

    def test_other_programs_on_all_cores(self):
        with busy_cores(2 * len(os.sched_getaffinity(0))):
            done = self.run_on("busy", "true", tokens=100)
        self.assertEqual(done.returncode, 0, done.stdout)
        answer = self.answer("busy")
        self.assertEqual([ids[:12] for ids in answer["sequences"]], self.expected)
        ranks = answer["cores"]["ranks"]
        self.assertEqual(len(ranks), 2)
        for cores in ranks:
            self.assertGreater(cores["waited_for_core_s"], 0)
            self.assertLess(cores["waited_for_core_s"], cores["seconds"])
            self.assertGreater(cores["preemptions"], 0)
        self.expect_words(done, "% of the time for a core", "other programs use its cores")

    def test_a_full_disk_leaves_nothing_half_written(self):
        jobs = self.folder / "jobs.jsonl"
        jobs.write_text("".join(json.dumps({"id": str(i), "ids": [5, 9, i + 3], "max_new_tokens": 4}) + "\n" for i in range(3)))
        model = ("--model", self.model)
        one = ("generate", *model, "--launch", "threads", "--max-new-tokens", 4, "--ids-file", self.folder / "prompts.json")
        job = ("generate", *model, "--launch", "threads", "--no-do-sample", "--prompts-file", jobs)
        for name, code, words, left in (
                ("sums", 2, lambda folder: ("verify", "--model", folder / "model", "--write"),
                 ["./fill", "./model/config.json", "./model/model.safetensors"]),
                ("copy", 2, lambda folder: ("quantise", *model, "--weights", "q4:32", "--out", folder / "q4"), ["./fill"]),
                ("json", 2, lambda folder: (*one, "--json", folder / "answer.json"), ["./fill"]),
                ("trace", 2, lambda folder: (*one, "--trace", folder / "trace.json"), ["./fill"]),
                ("answers", 2, lambda folder: (*job, "--output", folder / "answers.jsonl"), ["./fill"]),
                ("journal", 4, lambda folder: (*job, "--output", self.folder / "rows.jsonl", "--journal", folder / "journal"),
                 ["./fill", "./journal/rows.journal"])):
            folder = self.folder / f"full-{name}"
            folder.mkdir()
            if name == "sums":
                shutil.copytree(self.model, folder / "model")
            with self.subTest(name):
                done, files = self.run_command_on_full_disk(folder, *words(folder))
                self.expect_error(done, code, "No space left on device", "make room")
                self.assertEqual(files, left)
        self.assertFalse((self.folder / "rows.jsonl").exists())

    def test_a_server_of_few_files_outlives_a_crowd_of_connections(self):
        model = self.folder / "served"
        shutil.copytree(self.model, model)
        tiny_model.write_tokenizer(model)
        few = ["sh", "-c", "ulimit -n 64 && exec \"$@\"", "sh"]
        with served.Served(launches.PROGRAM, model, "--launch", "processes", "--tp", 2, before=few) as server:
            address = urllib.parse.urlsplit(server.url)
            with contextlib.ExitStack() as crowd:
                for _ in range(80):
                    crowd.enter_context(socket.create_connection((address.hostname, address.port), waiting.DEADLINE))
            status, answer = server.post("/v1/completions", {"prompt": "ab", "max_tokens": 4, "temperature": 0})
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["usage"]["completion_tokens"], 4)

    def test_output_that_nothing_takes_is_an_error(self):
        command = shlex.join([launches.PROGRAM, "generate", "--help"])
        done = self.run_command(["sh", "-c", f"exec {command} > /dev/full"])
        self.expect_error(done, 2, "cannot write to stdout")
        done = self.run_command(["sh", "-c", f"exec {command} > /dev/full 2> /dev/full"])
        self.assertEqual(done.returncode, 2)

    def test_a_home_that_cannot_be_written(self):
        done = self.run_on("home", "mount -t tmpfs -o ro tmpfs \"$HOME\"")
        self.expect_tokens(done, "home", 2)


def why_not():
    """What keeps this machine from running the tests; None: nothing."""
    try:
        made = subprocess.run(["unshare", "--mount", "--net", "--uts", "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return "there is no unshare"
    return None if made.returncode == 0 else "no namespaces of its own for a test (unshare)"


if __name__ == "__main__":
    launches.start_tests(why_not())
