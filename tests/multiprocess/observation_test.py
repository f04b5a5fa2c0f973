"""Output of --trace, --metrics and --profile for two ranks, with the same answer as without.

    observation_test.py PROGRAM MODEL GOLDENS
"""
import collections
import json
import math
import re

import jobs
import mpirun
import program

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')


def read_metrics(path):
    """{name: {labels as a tuple of values: number}}; every line must be of the format."""
    metrics, kinds = collections.defaultdict(dict), {}
    for line in path.read_text().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            metrics[name][tuple(re.findall(r'="((?:[^"\\]|\\.)*)"', labels or ""))] = float(value)
            family = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
            if kinds[family] == "counter":
                assert name.endswith("_total"), line
    return metrics


class Observation(program.Folder):
    PROMPT = ("--prompt", "The three primary colours are", "--prompt", "Once upon a time", "--max-new-tokens", 12,
              "--ignore-eos")

    def observe(self, *options):
        """The answer, the trace and the metrics of a run."""
        trace, metrics = self.folder / "trace.json", self.folder / "metrics.prom"
        answer = self.answer_of(*self.PROMPT, "--profile", "--trace", trace, "--metrics", metrics, *options, ranks=2)
        return answer, json.loads(trace.read_text()), read_metrics(metrics)

    def expect_sums(self, ranks):
        for rank in ranks:
            for phase in (rank["prefill"], rank["decode"], *rank["phases"].values()):
                parts = [phase[kind] for kind in ("compute_s", "communication_s", "waiting_s")]
                self.assertTrue(all(part >= 0 for part in parts), phase)
                self.assertTrue(math.isclose(sum(parts), phase["seconds"], abs_tol=1e-6), phase)
            steps = rank["prefill"]["seconds"] + rank["decode"]["seconds"]
            self.assertLessEqual(steps, rank["phases"]["run"]["seconds"])
            self.assertGreater(rank["phases"]["load"]["compute_s"], 0)

    def expect_split(self, ranks):
        self.expect_sums(ranks)
        for phase in ("prefill", "decode"):
            first, second = (rank[phase] for rank in ranks)
            for key in ("steps", "tokens", "collectives"):
                self.assertEqual(first[key], second[key])
                self.assertGreater(first[key], 0)
            self.assertLessEqual(first["entered_last"] + second["entered_last"], first["collectives"])
        self.assertEqual(ranks[0]["prefill"]["tokens"] + ranks[0]["decode"]["tokens"], 24)

    def expect_trace(self, trace, ranks):
        count = collections.Counter()
        spans = collections.defaultdict(list)
        for event in trace["traceEvents"]:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["ts"], 0)
                self.assertGreaterEqual(event["dur"], 0)
                count[event["pid"], event["cat"], event["args"].get("phase", event["name"])] += 1
                spans[event["pid"], event["tid"]].append((event["ts"], -event["dur"]))
        names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
        self.assertEqual([name[:6] for name in sorted(names)], ["rank 0", "rank 1"])
        for rank, told in enumerate(ranks):
            for phase in ("prefill", "decode"):
                self.assertEqual(count[rank, "step", phase], told[phase]["steps"])
                self.assertEqual(count[rank, "communication", phase], told[phase]["collectives"])
            self.assertEqual(count[rank, "phase", "run"], 1)
        for slices in spans.values():
            ends = []
            for begin, minus_duration in sorted(slices):
                while ends and ends[-1] <= begin + 1e-6:
                    ends.pop()
                if ends:
                    self.assertLessEqual(begin - minus_duration, ends[-1] + 1e-3)
                ends.append(begin - minus_duration)
        self.assertEqual(sum(event["args"]["of a step"] for event in trace["traceEvents"] if event["ph"] == "C"), 24)
        self.assertEqual(sum(event["ph"] == "e" for event in trace["traceEvents"]), 2)

    def expect_requests(self, trace, latencies):
        """Of the timeline: each in rank 0's process, with the times of --json, microseconds with three decimals."""
        at = {(event["ph"], event["id2"]["local"]): event for event in trace["traceEvents"] if event["ph"] in "bne"}
        for request, each in enumerate(map(str, range(len(latencies)))):
            self.assertEqual(at["b", each]["args"], {"request": request})
            begin = at["b", each]["ts"]
            self.assertAlmostEqual(at["n", each]["ts"] - begin, latencies[request][0] * 1e6, places=2)
            self.assertAlmostEqual(at["e", each]["ts"] - begin, sum(latencies[request]) * 1e6, places=2)

    def expect_metrics(self, metrics, answer):
        self.assertEqual(metrics["lockstep_run_complete"][()], 1)
        self.assertEqual(metrics["lockstep_generated_tokens_total"][()], 24)
        self.assertEqual(metrics["lockstep_requests_finished_total"], {("length",): 2})
        self.assertEqual(metrics["lockstep_time_to_first_token_seconds_count"][()], 2)
        for rank in answer["ranks"]:
            place = (str(rank["rank"]), rank["host"])
            for phase in ("prefill", "decode"):
                self.assertEqual(metrics["lockstep_collectives_total"][(*place, phase)], rank[phase]["collectives"])
                for kind in ("compute", "communication", "waiting"):
                    self.assertEqual(metrics["lockstep_phase_seconds_total"][(*place, phase, kind)],
                                     rank[phase][f"{kind}_s"])
            memory = answer["memory"]["ranks"][rank["rank"]]
            self.assertEqual(metrics["lockstep_memory_peak_bytes"][place], memory["peak_resident"])
            self.assertGreaterEqual(memory["peak_resident"], memory["peak_resident_loading"])
            self.assertGreater(memory["peak_resident_loading"], memory["weights"])

    def test_two_ranks_tell_where_their_time_went(self):
        answer, trace, metrics = self.observe()
        self.expect_split(answer["ranks"])
        self.expect_trace(trace, answer["ranks"])
        self.expect_requests(trace, answer["timings"]["token_latencies_s"])
        self.expect_metrics(metrics, answer)
        alone = self.answer_of(*self.PROMPT, ranks=2)
        self.assertEqual(alone["sequences"], answer["sequences"])
        self.assertNotIn("ranks", alone)
        self.assertGreater(alone["memory"]["ranks"][1]["peak_resident"], 0)

    def test_what_finds_no_room_is_counted(self):
        answer, trace, _ = self.observe("--trace-events", 50)
        for rank, told in zip(answer["ranks"], trace["otherData"]["ranks"]):
            total = sum(rank[phase]["collectives"] for phase in ("prefill", "decode"))
            self.assertEqual(rank["dropped_collectives"], total + rank["collectives_outside_steps"] - 50)
            self.assertEqual(told["dropped_collectives"], rank["dropped_collectives"])
        self.expect_split(answer["ranks"])

    def test_ranks_of_two_hosts_are_put_on_one_clock(self):
        """A rank with another host name counts as one of another host, although its clock is the same."""
        program_of_rank = mpirun.on_two_hosts(self.folder, program.PROGRAM)
        if program_of_rank is None:
            self.skipTest("no host names for one process alone (unshare --uts)")
        trace, out = self.folder / "trace.json", self.folder / "answer.json"
        with jobs.Job(program_of_rank, 2, ["--model", program.MODEL, "--prompt", "Once", "--max-new-tokens", "3",
                                           "--threads", "1", "--trace", trace, "--json", out]) as job:
            self.assertEqual(job.wait(), 0, job.text())
        told = json.loads(trace.read_text())
        first, second = told["otherData"]["ranks"]
        self.assertNotEqual(first["host"], second["host"])
        self.assertEqual(first["clock_error_us"], 0)
        self.assertGreater(second["clock_error_us"], 0)
        self.expect_sums(json.loads(out.read_text())["ranks"])
        steps = [[event for event in told["traceEvents"] if event.get("cat") == "step" and event["pid"] == rank]
                 for rank in (0, 1)]
        for pair in zip(*steps, strict=True):  # no rank ends a step before the other has begun it
            latest_begin = max(step["ts"] for step in pair)
            earliest_end = min(step["ts"] + step["dur"] for step in pair)
            self.assertGreater(earliest_end, latest_begin - second["clock_error_us"])

    def test_a_run_that_fails_leaves_no_trace_file(self):
        trace, metrics = self.folder / "trace.json", self.folder / "metrics.prom"
        arguments = ["--model", program.MODEL, "--prompt", "Once", "--max-new-tokens", "2000", "--ignore-eos",
                     "--trace", str(trace), "--metrics", str(metrics), "--metrics-interval-s", "0.1", "--json",
                     str(self.folder / "out.json")]
        with jobs.Job(program.PROGRAM, 2, arguments) as job:
            jobs.wait_until(metrics.exists, what="metrics while it runs")
            live = read_metrics(metrics)
            self.assertEqual(live["lockstep_run_complete"][()], 0)
            job.kill(program.PROGRAM, 1)
            job.record_of_survivor(0)
            job.wait()
        self.assertFalse(trace.exists() or (self.folder / "out.json").exists())
        self.assertEqual(read_metrics(metrics)["lockstep_run_complete"][()], 0)

    def test_a_file_that_cannot_be_written_is_refused_at_once(self):
        for option in ("--trace", "--metrics"):
            self.expect_refusal(2, option, arguments=("--model", program.MODEL, "--prompt", "hello", option,
                                                      self.folder / "nowhere" / "file"))


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
