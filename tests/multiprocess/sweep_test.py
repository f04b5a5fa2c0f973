"""`lockstep sweep` as a program: real points with a tiny model, and a stand-in for bench in tests of the sweep alone.

    sweep_test.py PROGRAM …
"""
import csv
import html.parser
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import jobs
import mpirun

PROGRAM = None
BROWSER = shutil.which("chromium")
CONFIG = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
          "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 16, "hidden_act": "silu", "vocab_size": 32,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
          "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}


def quick(repeats=1):
    return ["--new-tokens", "4", "--repeats", str(repeats), "--warmup", "0", "--threads", "1", "--probe-mib", "1"]


QUICK = quick()
TEMPLATE = " ".join([*mpirun.words(), "-n", "{ranks}"])

# Stands in for `lockstep bench`: notes its environment and its words, and writes a result unless told to do otherwise.
STAND_IN = """
import json, os, sys, time
def after(option):
    return sys.argv[sys.argv.index(option) + 1]
with open(os.environ["STAND_IN_NOTES"], "a") as notes:
    notes.write(json.dumps({"words": sys.argv[1:], "environment": dict(os.environ), "pid": os.getpid()}) + "\\n")
tp, batch = int(after("--tp")), int(after("--batch-size"))
wanted = os.environ.get("STAND_IN_" + after("--batch-size"), "")
if wanted.startswith("exit"):
    print("first words")
    print("noise\\n" * 50000, file=sys.stderr)
    print("lockstep: [launcher] cannot do this: said so on purpose", file=sys.stderr)
    sys.exit(int(wanted.split()[1]))
if wanted == "hang":
    time.sleep(600)
split = {"compute_s": 0.6, "communication_s": 0.1, "waiting_s": 0.3}
speed = 40.0 * batch * tp
repetition = {"decode_tokens_per_s": speed, "prefill_tokens_per_s": 9.0, "ttft_s": 0.1, "tpot_s": 0.02}
result = {"world_size": tp, "threads": 1, "dtype": "f32", "backend": "cpu", "communicator": "shm", "ttft_s": 0.1,
          "tpot_s": 0.02, "decode": {"tokens_per_s": speed, "of_bandwidth": 0.5},
          "prefill": {"tokens_per_s": 9.0, "of_peak": 0.5}, "ranks": [{"prefill": split, "decode": split}] * tp,
          "probe": {"read_bytes_per_s": 1e10, "flops_per_s": 1e10}, "repetitions": [repetition]}
with open(after("--json"), "w") as file:
    json.dump(result, file)
"""


class Page(html.parser.HTMLParser):
    """Checks that tags are balanced and collects what the page shows and refers to."""
    EMPTY = {"meta", "br", "hr", "img", "input", "link"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.references, self.texts = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.references += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action", "data")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing, line {self.getpos()[0]}")

    def handle_data(self, data):
        self.texts.append(data)


class Sweep(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.config = self.folder / "config.json"
        self.config.write_text(json.dumps(CONFIG))
        self.out = self.folder / "out"
        self.notes = self.folder / "notes"
        (self.folder / "stand_in.py").write_text(STAND_IN)

    def command(self, *arguments):
        return [PROGRAM, "sweep", "--random-weights", "--config", str(self.config), "--out", str(self.out),
                *map(str, arguments)]

    def environment(self, extra=None):
        return {**mpirun.environment(), "STAND_IN_NOTES": str(self.notes), **(extra or {})}

    def run_words(self, words, environment=None):
        done = subprocess.run(words, capture_output=True, timeout=jobs.DEADLINE, stdin=subprocess.DEVNULL, check=False,
                              env=self.environment(environment), cwd=self.folder)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def sweep(self, *arguments, code=0, environment=None):
        """stdout and stderr of a sweep that ends with `code`."""
        found, stdout, stderr = self.run_words(self.command(*arguments), environment)
        self.assertEqual(found, code, stderr)
        return stdout, stderr

    def stand_in(self):
        return ["--launch-template", f"'{sys.executable}' stand_in.py {{ranks}}"]

    def start(self, *arguments, environment=None):
        """A sweep that is still running."""
        process = subprocess.Popen(self.command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, env=self.environment(environment), cwd=self.folder)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def noted(self):
        """The lines that the stand-ins wrote at their start, without a line still being written."""
        lines = self.notes.read_text().splitlines(keepends=True) if self.notes.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def points(self, name="journal.jsonl"):
        return [json.loads(line) for line in (self.out / name).read_text().splitlines()[1:]]

    def results(self):
        return json.loads((self.out / "results.json").read_text())


class Points(Sweep):
    def test_threads_need_no_mpi_and_give_a_whole_report(self):
        stdout, stderr = self.sweep("--tp", "1,2,3", "--prompt-tokens", "8", *QUICK, "--launch-template", "threads",
                                    code=3)  # the model has two heads
        self.assertEqual([point["status"] for point in self.points()], ["ok", "ok", "impossible"])
        self.assertIn("[sweep] 2 of 3: tp 2, batch 1, 8 prompt and 4 new tokens: ", stderr)
        self.assertIn("1 of 3 points did not work", stderr)
        self.assertIn("TP 3 is impossible", stdout)
        rows = list(csv.DictReader((self.out / "results.csv").read_text().splitlines()))
        self.assertEqual([row["tp"] for row in rows], ["1", "2", "3"])
        self.assertGreater(float(rows[1]["decode_tokens_per_s"]), 0)
        self.assertEqual(float(rows[0]["speed_up"]), 1.0)
        self.assertEqual(rows[2]["decode_tokens_per_s"], "")
        self.assertEqual(self.results()["points"][1]["communicator"], "loopback")
        self.check_page()

    def check_page(self):
        text = (self.out / "report.html").read_text()
        page = Page(text)
        self.assertEqual(page.open, [])
        self.assertEqual(page.references, [])
        self.assertEqual(re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text), [])
        study = re.search(r'<script type="application/json" id="study">(.*?)</script>', text, re.DOTALL).group(1)
        self.assertEqual(json.loads(study), self.results())
        without_scripts = Page(text.partition("<script")[0] + "</body></html>")
        self.assertEqual((without_scripts.open, without_scripts.tags.count("table")), ([], 2))
        self.assertIn("decode tok/s", without_scripts.texts)
        self.assertTrue(any("is the fastest" in said for said in without_scripts.texts))

    @unittest.skipUnless(BROWSER, "needs chromium")
    def test_the_page_draws_its_charts_in_a_browser(self):
        self.sweep("--tp", "1,2", "--batch-size", "1,4", *self.stand_in())
        words = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder / 'profile'}",
                 "--virtual-time-budget=5000", "--dump-dom", (self.out / "report.html").as_uri()]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=jobs.DEADLINE, check=True).stdout
        figures = re.findall(r"<figure>.*?</figure>", shown, re.DOTALL)
        self.assertEqual(len(figures), 8)
        for figure in figures:
            self.assertEqual(len(re.findall('<path class="mark"', figure)), 4)  # two degrees of two series
            xml.etree.ElementTree.fromstring(re.search(r"<svg .*?</svg>", figure, re.DOTALL).group())
        self.assertNotRegex("".join(figures), "NaN|undefined|Infinity")
        self.assertEqual(len(re.findall("<li><svg", shown)), 3)  # two series, and "in proportion"

    def test_mpirun_starts_the_ranks_of_a_point(self):
        self.sweep("--tp", "2", "--prompt-tokens", "8", "--communicator", "shm", *QUICK, "--launch-template", TEMPLATE)
        (point,) = self.points()
        self.assertEqual(point["status"], "ok", point["message"])
        self.assertEqual(point["result"]["world_size"], 2)
        self.assertEqual(self.results()["points"][0]["communicator"], "shm")

    def test_a_rank_of_mpirun_is_no_place_for_a_sweep(self):
        code, _, stderr = self.run_words([mpirun.PROGRAM, "-n", "1", *self.command("--tp", "1")])
        self.assertEqual(code, 4, stderr)
        self.assertIn(f"found a process started by {mpirun.NAME}", stderr)
        self.assertFalse(self.out.exists())

    def test_points_see_nothing_of_an_outer_job(self):
        outer = {"OMPI_UNIVERSE_SIZE": "9", "PMIX_NAMESPACE": "x", "PMI_FD": "3", "SLURM_JOB_ID": "7",
                 "OMPI_MCA_btl": "self", "SLURM_CONF": "c", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
        self.sweep("--tp", "2", *self.stand_in(), environment=outer)
        (note,) = self.noted()
        seen = {name for name in note["environment"] if name.startswith(("OMPI_", "PMI", "SLURM_"))}
        self.assertEqual(seen - {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"},
                         {"OMPI_MCA_btl", "SLURM_CONF", "OMPI_ALLOW_RUN_AS_ROOT"})
        self.assertEqual(note["words"][0], "2")
        self.assertEqual(note["words"][2], "bench")

    def test_a_point_that_fails_is_recorded_and_the_sweep_goes_on(self):
        grid = ["--batch-size", "1,2,3", *self.stand_in()]
        _, stderr = self.sweep(*grid, code=2, environment={"STAND_IN_2": "exit 2"})
        self.assertIn("1 of 3 points did not work", stderr)
        self.assertEqual([point["status"] for point in self.points()], ["ok", "failed", "ok"])
        self.assertEqual(self.points()[1]["code"], 2)
        self.assertIn("said so on purpose", self.points()[1]["message"])
        self.sweep(*grid, code=2)
        self.assertEqual(len(self.noted()), 3)  # nothing was run again
        stdout, _ = self.sweep(*grid, "--retry-failed")
        self.assertEqual(len(self.noted()), 4)
        self.assertNotIn("failed", stdout)

    def test_a_point_that_fails_leaves_all_that_it_printed(self):
        grid = ["--batch-size", "1,2,3", *self.stand_in()]
        _, stderr = self.sweep(*grid, code=2, environment={"STAND_IN_2": "exit 2"})
        good, failed, _ = self.points()
        (kept,) = self.out.glob("failed-*")
        self.assertEqual((good["output"], failed["output"]), ("", kept.name))
        self.assertRegex(kept.name, "failed-tp1-batch2-prompt512-new64-[0-9a-f]{16}.txt")
        self.assertIn(f"all that it printed is in {kept}", stderr)
        printed = kept.read_text()
        self.assertIn("first words\n", printed)
        self.assertEqual(printed.count("noise\n"), 50000)
        self.assertEqual(self.results()["points"][1]["output"], kept.name)
        self.assertIn(f"all that it printed is in {kept.name}", (self.out / "report.html").read_text())
        self.sweep(*grid, "--retry-failed")
        self.assertEqual([path.name for path in self.out.glob("*.txt")], [])

    def crowded(self):
        """A degree with more ranks than this machine's cores, and a model that supports it."""
        ranks = os.cpu_count() + 1
        self.config.write_text(json.dumps({**CONFIG, "num_attention_heads": ranks, "hidden_size": 4 * ranks,
                                           "intermediate_size": 16 * ranks, "vocab_size": 32 * ranks}))
        return str(ranks)

    def test_more_ranks_than_cores_are_refused_before_the_first_point(self):
        _, stderr = self.sweep("--tp", f"1,{self.crowded()}", "--prompt-tokens", "8", *QUICK, code=4)
        self.assertIn('--launch-template "mpirun --oversubscribe --bind-to none -n {ranks}"', stderr)
        self.assertIn(f"cannot start points of {os.cpu_count() + 1} ranks", stderr)
        self.assertFalse(self.out.exists())

    def test_more_ranks_than_cores_start_with_the_flags_that_allow_it(self):
        self.sweep("--tp", self.crowded(), "--prompt-tokens", "8", *QUICK, "--launch-template", TEMPLATE)
        self.assertEqual(self.points()[0]["status"], "ok")

    def test_a_launcher_that_is_not_there_is_a_failed_point(self):
        _, stderr = self.sweep("--tp", "1,2", "--launch-template", "no-such-launcher {ranks}", code=4)
        self.assertIn("no-such-launcher", stderr)
        self.assertEqual(len(self.points()), 2)

    def test_a_point_is_ended_at_its_deadline(self):
        self.sweep("--point-deadline-s", "1", "--launch-template", "sh -c 'echo $$ > pid; sleep 600'", code=6)
        self.assertEqual(self.points()[0]["status"], "deadline")
        self.assertRaises(ProcessLookupError, os.kill, int((self.folder / "pid").read_text()), 0)


def core_count():
    """The cores that this process may use: a core may have several hardware threads."""
    def siblings(thread):
        path = pathlib.Path(f"/sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list")
        return path.read_text() if path.exists() else str(thread)
    return len({siblings(thread) for thread in os.sched_getaffinity(0)})


class Replicas(Sweep):
    def setUp(self):
        super().setUp()
        if core_count() < 2:
            self.skipTest("needs a core for each of two replicas")

    def test_groups_share_the_batch_and_measure_at_the_same_time(self):
        stdout, stderr = self.sweep("--tp", "2", "--replicas", "2", "--batch-size", "4", "--prompt-tokens", "8",
                                    *quick(repeats=2))
        self.assertIn("[sweep] 1 of 1: 2 x tp 2, batch 4, 8 prompt and 4 new tokens: ", stderr)
        self.assertIn("2 × TP 2 makes ", stdout)
        (point,) = self.points()
        groups = point["result"]
        self.assertEqual([(group["batch_size"], group["world_size"]) for group in groups], [(2, 2), (2, 2)])
        self.check_repetitions(*[group["repetitions"] for group in groups])
        (shown,) = self.results()["points"]
        self.assertEqual((shown["ranks"], shown["replicas"], shown["tp"]), (4, 2, 2))
        self.assertIsNotNone(shown["together"])
        speeds = [[repetition["decode_tokens_per_s"] for repetition in group["repetitions"]] for group in groups]
        self.assertAlmostEqual(shown["decode_tokens_per_s_max"], max(map(sum, zip(*speeds))))

    def check_repetitions(self, one, other):
        """No repetition begins before both groups have ended the one before it."""
        self.assertEqual((len(one), len(other)), (2, 2))
        for before, after in zip(zip(one, other), zip(one[1:], other[1:])):
            self.assertLess(max(group["end_s"] for group in before), min(group["begin_s"] for group in after))

    def test_what_cannot_be_shared_out_is_impossible(self):
        many = os.cpu_count() + 1
        _, stderr = self.sweep("--replicas", f"2,{many}", "--batch-size", str(2 * many + 1), *QUICK, code=3)
        self.assertIn(f"found {2 * many + 1} sequences for 2 replicas, expected a multiple", stderr)
        _, stderr = self.sweep("--replicas", many, "--batch-size", many, *QUICK, code=3)
        self.assertIn(f"for {many} replicas, expected one for each", stderr)
        self.assertEqual([point["status"] for point in self.points()], ["impossible"] * 3)

    def test_replicas_are_refused_under_a_launcher(self):
        _, stderr = self.sweep("--replicas", "2", "--batch-size", "2", "--launch-template", "mpirun -n {ranks}", code=3)
        self.assertIn("use --launch-template processes", stderr)
        self.assertFalse(self.out.exists())

    def process_of_group(self, group):
        """The process of a group's rank 0, by the file of its result."""
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(word.startswith(f"{self.out}/running-") and word.endswith(f"-{group}.json") for word in words):
                return int(path.parent.name)
        return None

    def test_a_group_that_is_lost_ends_the_point_and_is_named(self):
        sweep = self.start("--replicas", "2", "--batch-size", "2", "--prompt-tokens", "8", *quick(repeats=1000))  # minutes
        first = jobs.wait_until(lambda: self.process_of_group(0), what="the first group")
        other = jobs.wait_until(lambda: self.process_of_group(1), what="the second group")
        os.kill(other, signal.SIGKILL)
        self.assertEqual(sweep.wait(timeout=jobs.DEADLINE), 4)
        (point,) = self.points()
        self.assertEqual(point["status"], "failed")
        self.assertIn("signal 9", point["message"])
        self.assertRaises(ProcessLookupError, os.kill, first, 0)
        self.assertEqual(list(self.out.glob("running-*")), [])


class Resume(Sweep):
    def wait_for_hang(self, started):
        jobs.wait_until(lambda: len(self.noted()) == started, what="the point that hangs")
        return self.noted()[-1]["pid"]

    def is_gone(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    def test_a_killed_sweep_is_finished_by_the_next_one(self):
        grid = ["--batch-size", "1,2,3", *self.stand_in()]
        sweep = self.start(*grid, environment={"STAND_IN_2": "hang"})
        hanging = self.wait_for_hang(2)
        sweep.kill()
        sweep.wait()
        jobs.wait_until(lambda: self.is_gone(hanging), what="the end of the point that lost its sweep")
        self.assertEqual(len(self.points()), 1)
        with open(self.out / "journal.jsonl", "a", encoding="utf-8") as journal:
            journal.write('{"key": "tp 1, ba')  # as a kill in the middle of a write would leave it
        _, stderr = self.sweep(*grid)
        self.assertIn("1 of 3 points are in the journal already", stderr)
        batches = [note["words"][note["words"].index("--batch-size") + 1] for note in self.noted()]
        self.assertEqual(batches, ["1", "2", "2", "3"])
        self.assertEqual([point["status"] for point in self.points()], ["ok"] * 3)

    def test_ctrl_c_ends_the_point_and_leaves_the_journal_whole(self):
        grid = ["--batch-size", "1,2", *self.stand_in()]
        sweep = self.start(*grid, environment={"STAND_IN_2": "hang"})
        hanging = self.wait_for_hang(2)
        sweep.send_signal(signal.SIGINT)
        self.assertEqual(sweep.wait(timeout=jobs.DEADLINE), 130)
        self.assertTrue(self.is_gone(hanging))
        self.assertEqual(len(self.points()), 1)
        self.assertEqual(list(self.out.glob("running-*")), [])
        self.sweep(*grid)
        self.assertEqual(len(self.noted()), 3)

    def test_another_grid_adds_its_points(self):
        self.sweep("--batch-size", "1,2", *self.stand_in())
        self.sweep("--batch-size", "2,4", *self.stand_in())
        self.assertEqual(len(self.noted()), 3)
        self.assertEqual([point["batch_size"] for point in self.results()["points"]], [1, 2, 4])

    def test_a_folder_is_about_one_model(self):
        self.sweep(*self.stand_in())
        self.config.write_text(json.dumps({**CONFIG, "intermediate_size": 32}))
        _, stderr = self.sweep(*self.stand_in(), code=2)
        self.assertIn("holds sweeps of another model", stderr)
        self.assertEqual(len(self.noted()), 1)


class SlurmArray(Sweep):
    def test_tasks_write_journals_of_their_own_that_the_report_gathers(self):
        stdout, _ = self.sweep("--tp", "1,2", "--slurm-array", *self.stand_in())
        self.assertIn("submit: sbatch ", stdout)
        self.assertEqual(len((self.out / "points.txt").read_text().splitlines()), 2)
        script = self.out / "array.sbatch"
        self.assertIn("#SBATCH --array=0-1\n", script.read_text())
        for task in range(2):
            code, _, stderr = self.run_words(["bash", str(script)], {"SLURM_ARRAY_TASK_ID": str(task),
                                                                     "SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"})
            self.assertEqual(code, 0, stderr)
            self.assertEqual(len(self.points(f"journal-{task}.jsonl")), 1)
        self.assertFalse((self.out / "report.html").exists())
        gather = next(line for line in stdout.splitlines() if line.startswith("gather: ")).removeprefix("gather: ")
        code, table, stderr = self.run_words(["sh", "-c", gather])
        self.assertEqual(code, 0, stderr)
        self.assertIn("TP 2 is the fastest: 80 tokens/s, 2.00 times TP 1 (efficiency 100 %)", table)
        self.assertTrue((self.out / "report.html").exists())

    def test_the_script_starts_ranks_by_srun_unless_told_otherwise(self):
        self.sweep("--tp", "1,2", "--threads", "3", "--slurm-array")
        script = (self.out / "array.sbatch").read_text()
        self.assertIn("--launch-template 'srun --mpi=pmix --ntasks={ranks}' --only-point", script)
        self.assertIn("#SBATCH --ntasks=2\n#SBATCH --cpus-per-task=3\n", script)

    def test_a_folder_without_points_has_no_report(self):
        code, _, stderr = self.run_words([PROGRAM, "sweep", "--out", str(self.out), "--report"])
        self.assertEqual(code, 2, stderr)
        self.assertIn("found no points", stderr)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main("__main__", argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
