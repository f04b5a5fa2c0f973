"""Every kind of trace that Lockstep writes, in the reader of Perfetto: whole, nested, and with the numbers of the reports.

    viewer_test.py PROGRAM CUDA_STAND_IN [TEST…]        Python: of .venv-harness

Times are compared to the nanosecond, on several hosts within the clocks' error; counts exactly.
"""
import json
import pathlib
import shutil
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / folder) for folder in ("launch", "multiprocess", "serve")]
import launches  # noqa: E402
import loaded_trace  # noqa: E402
import mpirun  # noqa: E402
import served  # noqa: E402
import tiny_model  # noqa: E402
import trace_processor  # noqa: E402
from observation_test import read_metrics  # noqa: E402

CUDA_STAND_IN = None
STEPS = ("prefill", "decode")
EVENTS = 5  # that a rank keeps, in the test of dropped ones


class Viewer(launches.Launches):
    maxDiff = 4000
    tolerance = 0.5e-9  # seconds
    used = set()  # queries that were compared with a report that is not empty

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tiny_model.write_tokenizer(cls.model)

    def answered(self, sql_name, rows):
        """`rows`, noting that the query has some."""
        if rows:
            self.used.add(sql_name)
        return rows

    def assert_seconds(self, found, expected):
        self.assertAlmostEqual(found, expected, delta=self.tolerance)

    def assert_close(self, found, expected):
        self.assertEqual(len(found), len(expected), (found, expected))
        for one, other in zip(found, expected):
            if isinstance(other, float):
                self.assert_seconds(one, other)
            else:
                self.assertEqual(one, other)

    def trace_of(self, name, *words, before=(), environment=None, metrics=True):
        """The loaded trace of a run of the program, with its metrics as `metrics`."""
        trace, numbers = self.folder / f"{name}.trace", self.folder / f"{name}.prom"
        observed = ("--trace", trace) + (("--metrics", numbers, "--profile") if metrics else ())
        done = self.run_command([*before, launches.PROGRAM, *words, *observed], environment)
        self.assertEqual(done.returncode, 0, done.stdout)
        return self.load(trace, numbers if metrics else None)

    def load(self, trace, numbers):
        loaded = loaded_trace.LoadedTrace(self, trace)
        loaded.expect_whole()
        loaded.metrics = read_metrics(numbers) if numbers else None
        return loaded

    def generated(self, name, *words, ranks=2, launch="threads", tokens=12, slots=1, **more):
        """A trace of `lockstep generate` whose answers take `slots` each, compared with both reports."""
        started = ("--launch", launch, "--tp", ranks) if launch else ()
        arguments = self.arguments(name, *started, *words, tokens=tokens)
        if "--do-sample" in words:
            arguments.remove("--no-do-sample")
        loaded = self.trace_of(name, *arguments, **more)
        self.assertEqual(len(loaded.ranks), ranks)
        loaded.expect_collectives_in_steps()
        self.expect_reports(loaded)
        self.expect_answer(loaded, self.answer(name), slots)
        return loaded

    # What the metrics say.

    def expect_reports(self, loaded):
        """The documented queries give the numbers of --metrics."""
        self.expect_times(loaded)
        self.expect_counts(loaded)
        self.expect_lateness(loaded)
        self.expect_requests(loaded)
        self.expect_steps(loaded)

    def by_rank(self, loaded, name):
        """{(process name, further labels…): value} of a metric."""
        return {(f"rank {rank} ({host})", *more): value for (rank, host, *more), value in loaded.metrics[name].items()}

    def expect_times(self, loaded):
        seconds = self.by_rank(loaded, "lockstep_phase_seconds_total")
        kinds = ("compute", "communication", "waiting")
        rows = {(rank, phase): times for rank, phase, *times in self.answered("time", loaded.ask("time"))}
        for rank in loaded.ranks:
            for phase in STEPS:
                whole, communication, waiting = rows.pop((rank, phase), (0.0, 0.0, 0.0))
                self.assert_close((whole - communication - waiting, communication, waiting),
                                  [seconds[rank, phase, kind] for kind in kinds])
        self.assertEqual(rows, {})
        phases = [row for row in self.answered("phases", loaded.ask("phases")) if row[1] != "run"]  # its steps are there
        told = {(rank, phase) for rank, phase, _ in seconds if phase not in STEPS}
        self.assertEqual({(rank, phase) for rank, phase, _ in phases}, told)
        for rank, phase, whole in phases:
            self.assert_seconds(whole, sum(seconds[rank, phase, kind] for kind in kinds))

    def expect_counts(self, loaded):
        rows = {(rank, phase): (steps, tokens) for rank, phase, steps, tokens, _, _ in
                self.answered("steps", loaded.ask("steps"))}
        steps, tokens = (self.by_rank(loaded, f"lockstep_{name}_total") for name in ("steps", "step_tokens"))
        self.assertEqual(rows, {place: (count, tokens[place]) for place, count in steps.items() if count})
        collectives, moved = {}, {}
        for rank, phase, _, count, size, _ in self.answered("collectives", loaded.ask("collectives")):
            if phase != "outside":
                collectives[rank, phase] = collectives.get((rank, phase), 0) + count
                moved[rank, phase] = moved.get((rank, phase), 0) + size
        for found, name in ((collectives, "collectives"), (moved, "collective_bytes")):
            told = self.by_rank(loaded, f"lockstep_{name}_total")
            self.assertEqual(found, {place: count for place, count in told.items() if count})

    def expect_lateness(self, loaded):
        told = self.by_rank(loaded, "lockstep_collectives_entered_last_total")
        rows = self.answered("late ranks", loaded.ask("late ranks"))
        self.assertEqual({(rank, phase): count for rank, phase, count, _ in rows},
                         {place: count for place, count in told.items() if count})

    def expect_requests(self, loaded):
        rows = self.answered("requests", loaded.ask("requests"))
        metrics = loaded.metrics
        reasons = {}
        for *_, reason in rows:
            reasons[reason,] = reasons.get((reason,), 0) + 1
        self.assertEqual(reasons, metrics["lockstep_requests_finished_total"])
        first = [ttft for _, ttft, *_ in rows if ttft is not None]
        self.assert_close((len(first), sum(first)), [metrics[f"lockstep_time_to_first_token_seconds_{what}"][()]
                                                     for what in ("count", "sum")])
        between = [tpot / 1e3 for _, _, _, tpot, _, _ in rows if tpot is not None]
        self.assert_close((len(between), sum(between)), [metrics[f"lockstep_time_per_output_token_seconds_{what}"][()]
                                                         for what in ("count", "sum")])

    def expect_steps(self, loaded):
        steps = [event for event in loaded.events["X"] if event["cat"] == "step" and event["pid"] == 0]
        longest = sorted(steps, key=lambda event: (-event["dur"], event["ts"]))[:10]
        rows = self.answered("slowest steps", loaded.ask("slowest steps"))
        self.assertEqual([row[:4] for row in rows], [(one["name"], *(one["args"][key] for key in ("schedule", "step", "rows")))
                                                     for one in longest])

    # What --json says.

    def expect_answer(self, loaded, answer, slots=1):
        phases = {(rank, phase): seconds for rank, phase, seconds in loaded.ask("phases")}
        late = {(rank, phase): cost for rank, phase, _, cost in loaded.ask("late ranks")}
        for name, rank in zip(loaded.ranks, answer["ranks"], strict=True):
            for phase, told in rank["phases"].items():
                self.assert_seconds(phases[name, phase], told["seconds"])
            for phase in STEPS:
                self.assert_seconds(late.get((name, phase), 0.0), rank[phase]["cost_to_others_s"])
        if any(answer["timings"]["token_latencies_s"]):
            latencies = answer["timings"]["token_latencies_s"]
            rows = sorted(loaded.ask("requests"), key=lambda row: row[0])
            for (_, ttft, seconds, _, tokens, _), each in zip(rows, latencies, strict=True):
                self.assert_close((ttft, seconds, tokens), [each[0], float(sum(each)), len(each)])
            self.assertEqual(slots * sum(tokens for *_, tokens, _ in rows),
                             sum(row[3] for row in loaded.ask("steps") if row[0] == loaded.ranks[0]))
        if "speculation" in answer:
            (accepted,), = self.answered("accepted drafts", loaded.ask("accepted drafts"))
            self.assertEqual(accepted, answer["speculation"]["accepted"])

    # Kinds of traces: ranks.

    def test_ranks_that_are_threads(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                self.generated(f"threads-{ranks}", ranks=ranks)

    def test_ranks_that_are_processes(self):
        self.generated("processes", launch="processes")

    def test_ranks_of_mpirun(self):
        self.generated("mpirun", launch=None, before=self.mpirun())

    def test_ranks_of_two_hosts_on_one_clock(self):
        on_two = mpirun.on_two_hosts(self.folder, launches.PROGRAM)
        if on_two is None:
            self.skipTest("no host names for one process alone (unshare --uts)")
        trace, numbers = self.folder / "hosts.trace", self.folder / "hosts.prom"
        done = self.run_command([*self.mpirun(), on_two, *self.arguments("hosts"), "--trace", trace, "--metrics", numbers,
                                 "--profile"])
        self.assertEqual(done.returncode, 0, done.stdout)
        loaded = self.load(trace, numbers)
        clock_error_us = loaded.ask("facts")[1][5]
        self.assertGreater(clock_error_us, 0)
        # Times of rank 1 are converted to rank 0's clock: by an offset before the run and one after it, each that uncertain,
        # and to whole nanoseconds.
        self.tolerance = 2e-6 * clock_error_us + 1e-6
        self.expect_reports(loaded)
        self.expect_answer(loaded, self.answer("hosts"))

    def mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun")
        return ["mpirun", "-n", 2, *launches.CROWDED]

    def test_another_backend(self):
        self.generated("reference", "--backend", "reference")

    def test_devices_beside_the_host(self):
        if not pathlib.Path(CUDA_STAND_IN).exists():
            self.skipTest("built without the stand-in of the CUDA driver")
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                loaded = self.generated(f"gpu-{ranks}", "--backend", "cuda", "--cuda-driver", CUDA_STAND_IN,
                                        *(("--share-devices",) if ranks > 1 else ()), ranks=ranks,
                                        environment={"LOCKSTEP_STAND_IN_CUDA": "threaded"})
                told = self.by_rank(loaded, "lockstep_step_part_seconds_total")
                rows = self.answered("device", loaded.ask("device"))
                self.assertEqual(len(rows), 2 * ranks)
                for rank, phase, device, before, after in rows:
                    self.assert_close((device, before, after), [told[rank, phase, part] for part in
                                                                ("device", "host_before", "host_after")])

    # Kinds of traces: work.

    def test_drafts_of_a_model_and_of_the_prompt(self):
        self.generated("drafted", "--draft-model", self.model, "--num-assistant-tokens", 3)
        self.generated("looked-up", "--prompt-lookup-num-tokens", 2)

    def test_beams_and_guidance(self):
        self.generated("beams", "--num-beams", 3)
        self.generated("guided", "--guidance-scale", 1.5, slots=2)

    def test_several_answers_one_token_and_waiting_requests(self):
        self.generated("several", "--do-sample", "--num-return-sequences", 3, "--batch-size", 2)
        self.generated("single", tokens=1)

    def test_what_finds_no_room_is_counted(self):
        loaded = self.trace_of("dropped", *self.arguments("dropped", "--launch", "threads", "--tp", 2, "--trace-events",
                                                          EVENTS))
        dropped = self.by_rank(loaded, "lockstep_trace_dropped_total")
        steps = self.by_rank(loaded, "lockstep_steps_total")
        for rank, *_, no_step, no_collective in loaded.ask("facts"):
            self.assertEqual((no_step, no_collective), (dropped[rank, "step"], dropped[rank, "collective"]))
            self.assertEqual(sum(steps[rank, phase] for phase in STEPS) - no_step, EVENTS)
            kept, = (sum(count for name, _, _, count, *_ in loaded.ask("collectives") if name == rank),)
            self.assertEqual(kept, EVENTS)

    def test_scores_of_a_model_with_an_odd_name(self):
        odd = tiny_model.write(self.folder / 'größe "1"\\2')
        loaded = self.trace_of("scores", "score", "--model", odd, "--ids-file", self.folder / "prompts.json",
                               "--threads", 1, "--launch", "threads", "--tp", 2, "--json", self.folder / "scores.json")
        loaded.expect_collectives_in_steps()
        self.expect_reports(loaded)

    def test_a_batch_job(self):
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in ("abc", "bode", "x y z", "ein")))
        loaded = self.trace_of("job", "generate", "--model", self.model, "--prompts-file", rows, "--journal",
                               self.folder / "journal", "--output", self.folder / "rows.out", "--max-new-tokens", 6,
                               "--threads", 1, "--launch", "threads", "--tp", 2, "--batch-size", 2)
        loaded.expect_collectives_in_steps()
        self.expect_reports(loaded)
        self.assertEqual(len(loaded.ask("requests")), 4)

    def test_a_server(self):
        trace, numbers = self.folder / "served.trace", self.folder / "served.prom"
        with served.Served(launches.PROGRAM, self.model, "--threads", 1, "--tp", 2, "--batch-size", 2, "--max-seq-len", 64,
                           "--trace", trace, "--metrics", numbers, "--profile") as server:
            for text in ("abc", "bode", "ein"):
                status, answer = server.post("/v1/completions", {"model": "model", "prompt": text, "max_tokens": 6})
                self.assertEqual(status, 200, answer)
        loaded = self.load(trace, numbers)
        loaded.expect_collectives_in_steps()
        self.expect_reports(loaded)
        self.assertEqual(len(loaded.ask("requests")), 3)

    def test_a_server_with_another_number_of_ranks(self):
        trace, numbers, endpoint = (self.folder / f"resized.{end}" for end in ("trace", "prom", "json"))
        with served.Served(launches.PROGRAM, self.model, "--threads", 1, "--tp", 2, "--batch-size", 2, "--max-seq-len", 64,
                           "--endpoint-file", endpoint, "--trace", trace, "--metrics", numbers) as server:
            for degree in (None, 3):
                if degree:
                    done = self.run_command([launches.PROGRAM, "ctl", "degree", degree, "--endpoint-file", endpoint])
                    self.assertEqual(done.returncode, 0, done.stdout)
                status, answer = server.post("/v1/completions", {"model": "model", "prompt": "abc", "max_tokens": 6})
                self.assertEqual(status, 200, answer)
        loaded = self.load(trace, numbers)
        self.assertEqual(len(loaded.ranks), 3)
        loaded.expect_collectives_in_steps()
        self.expect_reports(loaded)
        self.assertEqual(len(loaded.ask("requests")), 1)

    def test_benchmarks(self):
        shape = ("--prompt-tokens", 8, "--new-tokens", 6, "--batch-size", 2, "--probe-mib", 8, "--repeats", 1, "--warmup", 0)
        for name, ranks, words in (("bench-1", 1, ()), ("bench-2", 2, ()),
                                   ("bench-both", 2, ("--invariance-cost", "--replay"))):
            with self.subTest(name=name):
                told = self.folder / f"{name}.json"
                loaded = self.trace_of(name, "bench", "--model", self.model, "--threads", 1, "--launch", "threads", "--tp",
                                       ranks, *shape, *words, "--json", told, metrics=False)
                loaded.expect_collectives_in_steps()
                rows = {(rank, phase): times for rank, phase, *times in loaded.ask("time")}
                for rank, each in zip(loaded.ranks, json.loads(told.read_text())["ranks"], strict=True):
                    for phase in STEPS:
                        whole, communication, waiting = rows[rank, phase]
                        self.assert_close((whole - communication - waiting, communication, waiting), [
                            each[phase][f"{kind}_s"] for kind in ("compute", "communication", "waiting")])
                self.assertEqual(sum(row[3] for row in loaded.ask("steps")), ranks * 2 * 6)

    @classmethod
    def tearDownClass(cls):
        unused = set(loaded_trace.QUERIES) - cls.used - {"facts"}  # `facts` is part of every trace's checks
        if cls.all_run:
            assert not unused, f"docs/observability.md has queries that no test compared: {unused}"
        super().tearDownClass()

    all_run = False


if __name__ == "__main__":
    Viewer.all_run = len(sys.argv) == 3
    CUDA_STAND_IN = sys.argv.pop(2)
    missing = trace_processor.MISSING
    launches.start_tests(f"{sys.executable} has no {', '.join(missing)}; scripts/setup harness installs them" if missing
                         else None)
