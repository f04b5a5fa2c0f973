"""`lockstep doctor`: its reports for correct launches, and for real faults."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import hosts
import launches
import tiny_model

DEADLINE = 60.0
NO_HOSTS = hosts.why_not()
SHM_TOO_SMALL = "mount -t tmpfs -o size=2m tmpfs /dev/shm && exec \"$0\" \"$@\""


class DoctorTest(unittest.TestCase):
    """A folder, and doctor's last output: text, report, checks by name."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="lockstep-doctor-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.json = self.folder / "out.json"

    def doctor(self, *options, before=(), ranks=None, quick=True, environment=None):
        """Runs it, under mpirun with `ranks`, and reads its output."""
        command = [*before]
        if ranks is not None:
            command += ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
        return self.finish([*command, launches.PROGRAM, *self.arguments(*options, quick=quick)], environment)

    def arguments(self, *options, quick=True):
        return ["doctor", *(["--quick"] if quick else ["--probe-mib", "8"]), "--json", str(self.json),
                *map(str, options)]

    def finish(self, command, environment=None):
        done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=DEADLINE, check=False,
                              env={**launches.environment(), **(environment or {})})
        self.read(done.stdout)
        return done

    def read(self, text):
        self.text = text
        self.report = json.loads(self.json.read_text()) if self.json.exists() else None
        self.checks = {check["name"]: check for check in self.report["checks"]} if self.report else {}

    def status(self, name):
        return self.checks[name]["status"]

    def expect_failure(self, done, check, *words):
        """Expects code 4, and these words of the check in the text and in the JSON."""
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertEqual(self.report["verdict"], "failed")
        self.assertEqual(self.status(check), "failed", self.text)
        self.assertIn("not ready", done.stdout)
        said = " ".join(self.checks[check][key] for key in ("found", "expected", "fix"))
        for word in words:
            self.assertIn(word, said)


class HealthyLaunches(DoctorTest):

    def expect_measured(self, done, ranks):
        """Expects all checks, and closing words for this launch."""
        for name in ("launch", "MPI start", "program", "shared memory", "control plane", "shm", "mpi"):
            self.assertEqual(self.status(name), "ok", done.stdout)
        self.assertEqual(len(self.report["ranks"]), ranks)
        self.assertEqual({line["communicator"] for line in self.report["collectives"]}, {"shm", "mpi"})
        for line in self.report["collectives"]:
            self.assertLessEqual(line["median_us"], line["p99_us"])
            self.assertGreater(line["bytes_per_s"], 0)
        self.assertRegex(done.stdout, rf"{ranks} ranks on 1 host: .*works.* at 8 KiB")
        self.assertIn(f"next: mpirun -n {ranks} lockstep generate --communicator auto", done.stdout)
        self.assertEqual(done.stdout.count("rank  host"), 1)

    def test_two_processes_and_a_model_are_examined_and_measured(self):
        done = self.doctor("--model", tiny_model.write(self.folder / "model"), ranks=2)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.expect_measured(done, 2)
        self.assertEqual(self.status("model files"), "ok")

    def test_four_processes_which_may_be_more_than_there_are_cores(self):
        done = self.doctor("--strict", ranks=4)
        self.expect_measured(done, 4)
        cores = len(os.sched_getaffinity(0))
        if cores < 4:
            self.assertEqual(done.returncode, 4, done.stdout)
            self.assertEqual(self.report["verdict"], "warning")
            self.assertIn(f"4 ranks but {cores} core", self.checks["places"]["found"])
            self.assertIn("start at most", self.checks["places"]["fix"])

    def test_one_rank_alone_and_under_mpirun(self):
        for ranks in (None, 1):
            with self.subTest(ranks=ranks):
                done = self.doctor(ranks=ranks)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertEqual(self.report["world_size"], 1)
                self.assertEqual(self.status("mpi"), "skipped")
                self.assertIn("1 rank on 1 host", done.stdout)

    def test_threads_of_one_process(self):
        done = self.doctor("--launch", "threads", "--tp", 2)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual([self.status(name) for name in ("loopback", "shm", "mpi")], ["ok", "ok", "skipped"])
        self.assertIn("next: lockstep generate --launch threads --tp 2", done.stdout)

    def test_the_probe_is_what_a_plan_needs(self):
        done = self.doctor("--threads", 1, ranks=2, quick=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        probe = self.report["probe"]
        self.assertGreater(probe["read_bytes_per_s"], 0)
        self.assertGreater(probe["flops_per_s"], 0)
        sizes = [line["bytes"] for line in probe["collectives"]]
        self.assertEqual(sizes, sorted(set(sizes)))
        self.assertTrue(all(line["seconds"] > 0 for line in probe["collectives"]))
        self.assertTrue(all(rank["read_bytes_per_s"] > 0 for rank in self.report["ranks"]))
        model = tiny_model.write(self.folder / "model")
        plan = subprocess.run([launches.PROGRAM, "plan", "--model", model, "--max-tp", "2", "--probe", self.json],
                              capture_output=True, text=True, timeout=DEADLINE, check=False)
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertIn("messages: as recorded between 2 ranks", plan.stdout)
        self.assertIn("2 core(s) together", plan.stdout)


class PlantedFaults(DoctorTest):

    def test_singletons(self):
        done = self.doctor(environment={"PMI_SIZE": "2", "PMI_RANK": "0", "MPI_LOCALRANKID": "0"})
        self.expect_failure(done, "MPI start", "the launcher does not fit this program's MPI", "rank 0 of 2",
                            "start it with")

    @unittest.skipIf(shutil.which("mpirun.mpich") is None, "mpirun.mpich is not there (Debian: mpich)")
    def test_singletons_of_another_mpirun(self):
        done = self.finish(["mpirun.mpich", "-n", 2, "env", "LOCKSTEP_MPI_LIBRARY=libmpi.so.40", launches.PROGRAM,
                            *self.arguments()])
        self.expect_failure(done, "MPI start", "the launcher does not fit this program's MPI", "rank 0 of 2")
        self.assertEqual(done.stdout.count("not ready"), 1)

    @unittest.skipIf(shutil.which("mpirun.mpich") is None, "mpirun.mpich is not there (Debian: mpich)")
    def test_the_library_of_another_mpirun_is_loaded(self):
        done = self.finish(["mpirun.mpich", "-n", 2, launches.PROGRAM, *self.arguments()])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("this program's MPI is MPICH", done.stdout)

    def test_a_small_dev_shm(self):
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this machine refuses mount namespaces")
        done = self.doctor(ranks=2, before=["unshare", "-m", "sh", "-c", SHM_TOO_SMALL])
        self.expect_failure(done, "shared memory", "/dev/shm has 2.00 MiB free", "--shm-size", "--communicator mpi")
        self.assertEqual([self.status(name) for name in ("shm", "mpi")], ["skipped", "ok"])

    def test_ranks_on_one_core_while_others_idle(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            self.skipTest("this machine has one core")
        done = self.finish(["mpirun", "-n", 2, "--bind-to", "none", "taskset", "-c", cores[0], launches.PROGRAM,
                             *self.arguments("--strict")])
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertEqual(self.status("places"), "warning")
        self.assertIn("share 1 core", self.checks["places"]["found"])
        self.assertIn("mpirun --bind-to none", self.checks["places"]["fix"])

    def test_an_interface_that_is_not_there(self):
        done = self.doctor("--interface", "192.0.2.1", ranks=2)
        self.expect_failure(done, "control plane", "'192.0.2.1'", "--interface NAME")
        self.assertEqual(self.status("mpi"), "ok")

    def test_another_program_on_a_rank(self):
        program = pathlib.Path(launches.PROGRAM)
        notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=False).stdout
        build = re.search(r"Build ID: ([0-9a-f]+)", notes)
        if build is None:
            self.skipTest("the program has no build id")
        own = bytes.fromhex(build.group(1))
        other = self.folder / "lockstep"
        other.write_bytes(program.read_bytes().replace(own, bytes(reversed(own))))
        other.chmod(0o755)
        library = {"LD_LIBRARY_PATH": f"{program.parent}:{program.parent.parent / 'lib'}"}
        done = self.finish(["mpirun", "--oversubscribe", "-n", 1, program, *self.arguments(), ":", "-n", 1, other,
                            *self.arguments()], library)
        self.expect_failure(done, "program", "rank 1 runs another program", build.group(1), "one build on every host")

    def test_a_model_that_differs_or_is_missing(self):
        good, other = tiny_model.write(self.folder / "good"), tiny_model.write(self.folder / "other")
        with open(pathlib.Path(other) / "config.json", "a", encoding="utf-8") as config:
            config.write("\n")
        done = self.finish(["mpirun", "--oversubscribe", "-n", 1, launches.PROGRAM, *self.arguments("--model", good),
                            ":", "-n", 1, launches.PROGRAM, *self.arguments("--model", other)])
        self.expect_failure(done, "model files", "rank 1", "another config.json", "the same path on every host")
        done = self.doctor("--model", self.folder / "nowhere")
        self.expect_failure(done, "model files", "rank 0", "cannot be opened")

    def test_a_rank_that_stands_still_before_it_starts(self):
        wrapper = "[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && kill -STOP $$; exec \"$0\" \"$@\""
        begin = time.monotonic()
        done = self.finish(["mpirun", "--oversubscribe", "-n", 2, "sh", "-c", wrapper, launches.PROGRAM,
                            *self.arguments("--stage-deadline-s", 2)])
        self.assertLess(time.monotonic() - begin, 30)
        self.expect_failure(done, "MPI start", "rank 1 has not been heard of", "that none is stopped")
        self.assertEqual(self.status("places"), "skipped")

    def test_a_rank_that_stops_in_a_stage(self):
        """Stops rank 1 during the measurement of the machine's limits, which takes seconds."""
        command = ["mpirun", "--oversubscribe", "-n", "2", launches.PROGRAM, "doctor", "--json", str(self.json),
                   "--stage-deadline-s", "3", "--probe-mib", "512"]
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", env=launches.environment())
        watchdog = kill_after_deadline(job)
        text = ""
        for line in job.stdout:
            text += line
            if " model files " in line:
                time.sleep(0.5)  # rank 1 may report the next stage after rank 0 has printed the end of this one
                os.kill(rank_pid(job.pid, 1), signal.SIGSTOP)
        code = job.wait()
        watchdog.cancel()
        job.stdout.close()
        self.read(text)
        self.expect_failure(subprocess.CompletedProcess(command, code, text), "machine limits", "rank 1 has been silent",
                            "last in 'machine limits'", "is the process stopped")


@unittest.skipIf(NO_HOSTS, str(NO_HOSTS))
class SeveralHosts(DoctorTest):
    @classmethod
    def setUpClass(cls):
        cls.group = cls.enterClassContext(hosts.Hosts(2))
        cls.group.add_blind_interface()

    def test_uneven_hosts_a_network_and_two_levels(self):
        done = self.finish([*self.group.mpirun([2, 1]), launches.PROGRAM, *self.arguments()])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("the hosts are uneven", self.checks["places"]["found"])
        self.assertIn("10.77.0.1 on node0 (net0 10.77.0.1/24)", self.checks["control plane"]["found"])
        self.assertIn("differ by at most", self.checks["clocks"]["found"])
        self.assertEqual([self.status(name) for name in ("shared memory", "shm", "mpi", "two-level")],
                         ["ok", "skipped", "ok", "ok"])
        self.assertEqual([host["ranks"] for host in self.report["hosts"]], [[0, 1], [2]])

    def test_a_network_that_leads_nowhere_is_named_with_both_ends(self):
        done = self.finish([*self.group.mpirun([1, 1]), launches.PROGRAM, *self.arguments("--interface", "blind0")])
        self.expect_failure(done, "control plane", "rank 1 cannot reach rank 0 at 172.30.0.1:",
                            "on node0 (blind0 172.30.0.1/16) from node1 (blind0 172.30.0.1/16)", "--interface NAME")
        self.assertEqual(self.status("mpi"), "ok")


def kill_after_deadline(job):
    timer = threading.Timer(DEADLINE, job.kill)
    timer.start()
    return timer


def rank_pid(mpirun, rank):
    """The process of a rank of this mpirun."""
    wanted = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or (entry / "exe").resolve() != pathlib.Path(launches.PROGRAM).resolve():
                continue
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == mpirun and wanted in (entry / "environ").read_bytes().split(b"\0"):
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError(f"rank {rank} is not there")


if __name__ == "__main__":
    launches.start_tests(None if shutil.which("mpirun") else "mpirun is not there (Debian: openmpi-bin)")
