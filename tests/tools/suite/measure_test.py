"""Programs that alternate, fail, hang and leave processes behind; the page cache of files."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import children
import file_cache
import measure
from children import Interrupted, Interruption
from figures import ChildStatus
from goals import Files
from plan import Absence, AbsenceKind, PlannedMeasurement, Side

FOLDER = pathlib.Path(children.__file__).parent

# A process that waits for children as the suite does.
PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import children
interruption = children.Interruption()
interruption.watch()
{body}
"""

GOOD = """echo '{"speed": 3}' > $1"""


class Measure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.lines = []
        self.interruption = Interruption()

    def side(self, name, script, files=Files.AS_THEY_ARE):
        """A program that notes that it ran. The suite adds "--json FILE": sh takes them for $0 and $1."""
        return Side(name, ["/bin/sh", "-c", f"echo {name} >> {self.folder / 'log'}; {script}"], files)

    def run_sides(self, *sides, **others):
        measurement = PlannedMeasurement("m", list(sides), **others)
        place = measure.Workplace(self.folder, 2, self.interruption)
        return measure.measure(measurement, place, self.lines.append)

    def log(self):
        log = self.folder / "log"
        return log.read_text().split() if log.exists() else []

    def test_sides_take_turns(self):
        records = self.run_sides(self.side("a", GOOD), self.side("b", GOOD), rounds=2)
        self.assertEqual(self.log(), ["a", "b", "a", "b"])
        self.assertEqual([(record.side, record.round) for record in records], [("a", 0), ("b", 0), ("a", 1), ("b", 1)])
        self.assertEqual(records[3].result["speed"], 3)
        self.assertEqual(records[3].result["suite"], {"seconds": records[3].seconds})
        self.assertEqual(len(self.lines), 4)
        self.assertEqual(list(self.folder.glob("running-*")), [])

    def test_a_program_that_fails_ends_its_measurement_with_its_reason(self):
        records = self.run_sides(self.side("a", "echo 'lockstep: [x] broke' >&2; echo noise >&2; exit 5"),
                                 self.side("b", "true"), rounds=3)
        self.assertEqual([(record.status, record.code) for record in records], [(ChildStatus.FAILED, 5)])
        self.assertEqual(records[0].reason, "exit code 5: [x] broke")

    def test_a_program_that_does_not_know_an_option_refuses(self):
        for code in (2, 3):
            self.assertEqual(self.run_sides(self.side("a", f"exit {code}"))[0].status, ChildStatus.REFUSED)

    def test_a_program_that_hangs_is_ended_with_all_that_it_started(self):
        # set -m: a process group of its own, as mpirun gives to each rank.
        script = f"set -m; sleep 600 & echo $! > {self.folder / 'other'}; wait"
        (record,) = self.run_sides(self.side("a", script), deadline_s=0.5)
        self.assertEqual((record.status, record.code), (ChildStatus.FAILED, 128 + signal.SIGTERM))
        self.assertIn("deadline", record.reason)
        state = pathlib.Path(f"/proc/{int((self.folder / 'other').read_text())}/stat")
        self.assertTrue(not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z")

    def test_a_program_that_ignores_the_request_to_end_is_killed(self):
        with unittest.mock.patch.object(children, "GRACE_S", 0.2):
            (record,) = self.run_sides(self.side("a", "trap '' TERM; while :; do sleep 600; done"), deadline_s=0.3)
        self.assertEqual(record.code, 128 + signal.SIGKILL)

    def test_a_program_that_is_not_there_or_writes_nothing_fails(self):
        (absent,) = self.run_sides(Side("a", ["/there/is/no/such/program"]))
        self.assertEqual((absent.status, absent.code), (ChildStatus.FAILED, 2))
        self.assertIn("cannot start /there/is/no/such/program", absent.reason)
        (silent,) = self.run_sides(self.side("a", "true"))
        self.assertIn("wrote no result", silent.reason)
        for torn in ("[1", "[1]"):
            self.assertEqual(self.run_sides(self.side("a", f"echo '{torn}' > $1"))[0].status, ChildStatus.FAILED)

    def test_a_launcher_is_quoted_by_its_last_lines(self):
        self.assertEqual(measure.reason_of("------\nnot enough slots\n------\n"), "not enough slots")
        self.assertEqual(len(measure.reason_of("line\n" * 20).splitlines()), measure.SHOWN_LINES)

    def test_an_interruption_ends_what_runs_and_starts_nothing_else(self):
        self.interruption.set()
        with self.assertRaises(Interrupted):
            self.run_sides(self.side("a", "true"))
        self.assertEqual(self.log(), [])

    def test_what_is_absent_is_not_started(self):
        absence = Absence(AbsenceKind.MISSING, "no")
        self.assertEqual(self.run_sides(self.side("a", "true"), absence=absence), [])
        self.assertEqual(self.log(), [])

    def test_files_are_read_before_a_program_that_wants_them_warm(self):
        checkpoint = self.folder / "checkpoint"
        checkpoint.mkdir()
        (checkpoint / "model.safetensors").write_bytes(b"x" * 100_000)
        (record,) = self.run_sides(self.side("warm", "echo '{}' > $1", Files.WARM), checkpoint=checkpoint)
        self.assertEqual(record.result["suite"]["files"]["bytes"], 100_000)
        self.assertGreater(record.result["suite"]["files"]["read_s"], 0)

    def test_files_that_are_not_there_refuse(self):
        (record,) = self.run_sides(self.side("warm", "true", Files.WARM), checkpoint=self.folder / "none")
        self.assertEqual(record.status, ChildStatus.REFUSED)
        self.assertIn("--checkpoint: found no", record.reason)
        self.assertEqual(self.log(), [])


class Signals(unittest.TestCase):
    def test_a_signal_ends_the_child_that_is_waited_for(self):
        program = PROGRAM.format(folder=str(FOLDER), body="""
print("ready", flush=True)
try:
    children.run_child(["sleep", "600"], 600, interruption)
except children.Interrupted:
    print("interrupted", flush=True)
""")
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as waiting:
                self.assertEqual(waiting.stdout.readline(), "ready\n")
                waiting.send_signal(number)
                self.assertEqual(waiting.stdout.readline(), "interrupted\n")

    def test_a_child_does_not_outlive_the_suite(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = pathlib.Path(folder) / "pipe"
            os.mkfifo(pipe)
            script = f"exec 3> {pipe}; echo started >&3; exec sleep 600"
            waiting = subprocess.Popen([sys.executable, "-c", PROGRAM.format(
                folder=str(FOLDER), body=f"children.run_child(['sh', '-c', {script!r}], 600, interruption)")])
            with open(pipe, encoding="utf-8") as held:
                self.assertEqual(held.readline(), "started\n")
                waiting.kill()
                waiting.wait()
                self.assertEqual(held.read(), "")  # returns once no process holds the other end


class PageCache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_reads_bin_files_only_where_there_are_no_safetensors(self):
        (self.folder / "pytorch_model.bin").write_bytes(b"x" * 70_000)
        self.assertEqual(file_cache.read_files(self.folder, 3).bytes, 70_000)
        (self.folder / "model.safetensors").write_bytes(b"x" * (file_cache.PIECE + 100_000))
        (self.folder / "model.gguf").write_bytes(b"x" * 10)  # the same weights for others
        self.assertEqual(file_cache.read_files(self.folder, 3).bytes, file_cache.PIECE + 100_000)

    def test_counts_the_pages_that_are_in_memory(self):
        path = self.folder / "model.safetensors"
        path.write_bytes(b"x" * 1_000_000)
        handle = os.open(path, os.O_RDONLY)
        self.addCleanup(os.close, handle)
        self.assertGreaterEqual(file_cache.cached_bytes(handle, 1_000_000), 1_000_000)
