"""The reader of traces itself: it loads good ones, and names what is wrong with others.

    reader_test.py        Python: of .venv-harness
"""
import json
import sys
import unittest

import trace_processor
from trace_processor import ReaderError, TraceProcessor


def slice_at(begin, duration, **more):
    return {"ph": "X", "pid": 3, "tid": 1, "cat": "step", "name": "decode", "ts": begin, "dur": duration, "args": {}, **more}


def loaded(*events):
    return TraceProcessor(json.dumps({"traceEvents": events}).encode())


class Reader(unittest.TestCase):
    def test_a_query_has_rows_of_every_type(self):
        reader = loaded(slice_at(1, 2.5, args={"count": 7, "share": 0.25, "text": "ä\"b", "none": None}))
        self.assertEqual(reader.errors(), {})
        self.assertEqual(reader.rows("SELECT name, ts, dur / 1e3, NULL FROM slice"), [("decode", 1000, 2.5, None)])
        self.assertEqual(reader.rows("SELECT name AS one, name AS one FROM slice WHERE name = 'absent'"), [])
        self.assertEqual(reader.rows("SELECT EXTRACT_ARG(arg_set_id, 'args.count'), EXTRACT_ARG(arg_set_id, 'args.share'), "
                                     "EXTRACT_ARG(arg_set_id, 'args.text') FROM slice"), [(7, 0.25, "ä\"b")])

    def test_its_modules_are_there_without_a_network(self):
        reader = loaded(slice_at(1, 2))
        self.assertEqual(reader.value("INCLUDE PERFETTO MODULE slices.with_context; SELECT count(*) FROM thread_slice"), 1)

    def test_slices_that_overlap_are_an_error(self):
        self.assertEqual(loaded(slice_at(0, 5), slice_at(5, 5)).errors(), {})
        self.assertEqual(loaded(slice_at(0, 5), slice_at(1, 2)).errors(), {})
        self.assertEqual(loaded(slice_at(0, 5), slice_at(3, 5)).errors(), {"slice_drop_overlapping_complete_event": 1})

    def test_a_damaged_file_is_refused(self):
        with self.assertRaisesRegex(ReaderError, "incomplete"):
            TraceProcessor(b'{"traceEvents":[{"ph":"X","pid":1,')
        with self.assertRaisesRegex(ReaderError, "Unknown trace type"):
            TraceProcessor(b"no trace")

    def test_a_wrong_query_is_refused_and_the_next_one_is_answered(self):
        reader = loaded(slice_at(0, 5))
        with self.assertRaisesRegex(ReaderError, "no such table: nowhere"):
            reader.rows("SELECT * FROM nowhere")
        self.assertEqual(reader.value("SELECT count(*) FROM slice"), 1)

    def test_a_file_of_several_requests(self):
        """With more rows than an answer has in one batch."""
        text = "x" * 1000
        count = trace_processor.REQUEST_BYTES // 1000 + 10
        reader = loaded(*(slice_at(i, 1, args={"text": text}) for i in range(count)))
        self.assertEqual(reader.errors(), {})
        self.assertEqual(reader.rows("SELECT ts FROM slice"), [(1000 * i,) for i in range(count)])


if __name__ == "__main__":
    if trace_processor.MISSING:
        print(f"skipped: {sys.executable} has no {', '.join(trace_processor.MISSING)}; scripts/setup harness installs them")
        sys.exit(77)
    unittest.main(verbosity=2)
