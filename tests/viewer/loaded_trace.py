"""A trace of Lockstep in Perfetto's reader: what must hold for every one, and the queries of docs/observability.md."""
import collections
import decimal
import json
import pathlib
import re

import trace_processor

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "observability.md"
THREADS = {"executor", "collectives", "device"}  # with slices; those of requests are tracks of their process
PARENTS = {"phase": None, "schedule": "phase", "step": "schedule", "waiting": None, "communication": None, "device": None}


def documented():
    """{name: SQL} of the document's queries; the first line of each is a comment with its name."""
    blocks = re.findall(r"^```sql\n-- (.+?)\n(.+?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return {name.partition(":")[0]: sql for name, sql in blocks}


QUERIES = documented()


def nanoseconds(microseconds):
    whole = microseconds * 1000
    assert whole == int(whole), microseconds
    return int(whole)


def flat(value, key="args"):
    """The arguments of an event under the reader's names: args.cores[1]."""
    if isinstance(value, dict):
        return {name: one for inner in value for name, one in flat(value[inner], f"{key}.{inner}").items()}
    if isinstance(value, list):
        return {name: one for i, each in enumerate(value) for name, one in flat(each, f"{key}[{i}]").items()}
    return {key: float(value) if isinstance(value, decimal.Decimal) else value}


class LoadedTrace:
    """`path` in the reader. `test` is told what does not hold."""

    def __init__(self, test, path):
        self.test = test
        self.file = json.loads(path.read_text(), parse_float=decimal.Decimal)
        self.events = collections.defaultdict(list)  # by kind
        for event in self.file["traceEvents"]:
            self.events[event["ph"]].append(event)
        self.reader = trace_processor.TraceProcessor(path)
        self.rows = self.reader.rows
        self.ranks = [f"rank {one['rank']} ({one['host']})" for one in self.file["otherData"]["ranks"]]

    def ask(self, name):
        """The rows of a query of the document."""
        return self.rows(QUERIES[name])

    def expect_whole(self):
        """Nothing of the file is lost or changed on its way into the reader's tables, and its slices nest."""
        self.test.assertEqual(self.reader.errors(), {})
        self.expect_slices()
        self.expect_names()
        self.expect_nesting()
        self.expect_requests_and_counter()
        self.expect_facts()

    def expect_slices(self):
        arguments = collections.defaultdict(dict)
        for place, key, number, text, real in self.rows("SELECT arg_set_id, key, int_value, string_value, real_value FROM args"):
            arguments[place][key] = next((one for one in (number, text, real) if one is not None), None)
        found = collections.Counter(
            (pid, tid, category, name, begin, duration, tuple(sorted(arguments[place].items())))
            for pid, tid, category, name, begin, duration, place in self.rows(
                "SELECT pid, tid, category, slice.name, ts, dur, slice.arg_set_id FROM slice JOIN thread_track "
                "ON thread_track.id = track_id JOIN thread USING (utid) JOIN process USING (upid)"))
        written = collections.Counter(
            (one["pid"], one["tid"], one["cat"], one["name"], nanoseconds(one["ts"]), nanoseconds(one["dur"]),
             tuple(sorted(flat(one["args"]).items()))) for one in self.events["X"])
        self.test.assertEqual(found - written, written - found)

    def expect_names(self):
        named = {name for name, in self.rows("SELECT name FROM process WHERE name IS NOT NULL")}
        self.test.assertEqual(named, set(self.ranks))
        threads = self.rows("SELECT DISTINCT process.name, thread.name FROM thread_track JOIN thread USING (utid) "
                            "JOIN process USING (upid)")
        self.test.assertLessEqual({thread for _, thread in threads}, THREADS)
        self.test.assertLessEqual({process for process, _ in threads}, set(self.ranks))
        self.test.assertEqual(self.rows("SELECT name FROM track WHERE type NOT IN ('thread_execution', 'json_counter', "
                                        "'legacy_async_process_slice')"), [])

    def expect_nesting(self):
        self.test.assertEqual(self.rows(
            "SELECT track_id, ts, before FROM (SELECT track_id, ts, lag(ts + dur) OVER (PARTITION BY track_id, depth "
            "ORDER BY ts, slice.id) AS before FROM slice JOIN thread_track ON thread_track.id = track_id) WHERE before > ts"), [])
        pairs = self.rows("SELECT child.category, parent.category, parent.name, sum(child.ts < parent.ts OR "
                          "child.ts + child.dur > parent.ts + parent.dur) FROM slice child JOIN thread_track "
                          "ON thread_track.id = child.track_id LEFT JOIN slice parent ON parent.id = child.parent_id "
                          "GROUP BY 1, 2, 3")
        for category, parent, name, outside in pairs:
            self.test.assertEqual(PARENTS[category], parent)
            self.test.assertFalse(outside)
            if category == "schedule":
                self.test.assertEqual(name, "run")

    def expect_collectives_in_steps(self):
        """Those of a step lie inside one; the ranks leave their waits together. For traces without dropped events."""
        collectives = ("(SELECT upid, ts, dur, name, EXTRACT_ARG(arg_set_id, 'args.phase') AS phase, "
                       "EXTRACT_ARG(arg_set_id, 'args.sequence') AS sequence FROM thread_slice "
                       "WHERE category = 'communication')")
        self.rows("INCLUDE PERFETTO MODULE slices.with_context")
        self.test.assertEqual(self.rows(
            f"SELECT * FROM {collectives} one WHERE phase != 'outside' AND NOT EXISTS (SELECT 1 FROM thread_slice step "
            "WHERE step.category = 'step' AND step.upid = one.upid AND step.name = one.phase "
            "AND step.ts <= one.ts AND one.ts + one.dur <= step.ts + step.dur)"), [])
        if len({one["host"] for one in self.file["otherData"]["ranks"]}) == 1:
            self.test.assertEqual(self.rows(
                f"SELECT name, phase, sequence FROM {collectives} WHERE phase != 'outside' AND name != 'broadcast' "
                f"GROUP BY 2, 3 HAVING count(DISTINCT ts) > 1 OR count(*) != {len(self.ranks)}"), [])

    def expect_requests_and_counter(self):
        ends = {event["id2"]["local"]: event for event in self.events["e"]}
        written = sorted((nanoseconds(event["ts"]), nanoseconds(ends[event["id2"]["local"]]["ts"] - event["ts"]),
                          event["args"]["request"], *(ends[event["id2"]["local"]]["args"][key] for key in ("tokens", "reason")))
                         for event in self.events["b"])
        self.test.assertEqual(self.rows(
            "SELECT ts, dur, EXTRACT_ARG(slice.arg_set_id, 'args.request') AS number, EXTRACT_ARG(slice.arg_set_id, 'args.tokens'), "
            "EXTRACT_ARG(slice.arg_set_id, 'args.reason') FROM slice JOIN process_track ON process_track.id = track_id "
            "JOIN process USING (upid) WHERE depth = 0 AND process.name GLOB 'rank 0 *' AND slice.name = 'request' ORDER BY ts, dur, number"), written)
        self.test.assertLessEqual(self.reader.value("SELECT count(*) FROM process_track"), self.most_at_once())
        self.test.assertEqual(len(self.events["n"]),
                              self.reader.value("SELECT count(*) FROM slice WHERE name = 'first token' AND depth = 1"))
        self.test.assertEqual(
            self.rows("SELECT track.name, process.name, ts, CAST(value AS INT) FROM counter JOIN process_counter_track track "
                      "ON track.id = track_id JOIN process USING (upid) ORDER BY counter.id"),
            [("tokens of a step", self.ranks[0], nanoseconds(event["ts"]), event["args"]["of a step"])
             for event in sorted(self.events["C"], key=lambda event: event["ts"])])

    def most_at_once(self):
        """The most requests that overlap: the number of tracks that the reader needs."""
        changes = sorted((event["ts"], event["ph"] == "b") for kind in "be" for event in self.events[kind])
        open_now = [0]
        for _, begins in changes:
            open_now.append(open_now[-1] + (1 if begins else -1))
        return max(open_now)

    def expect_facts(self):
        run = self.file["otherData"]
        self.test.assertEqual(self.ask("facts"), [
            (name, run["model"], run["backend"], run["dtype"], run.get("communicator"), float(rank["clock_error_us"]),
             rank["dropped_steps"], rank["dropped_collectives"]) for name, rank in zip(self.ranks, run["ranks"])])
