"""Offline batches with a journal: a killed process, another batch's journal, damage, two calls at once.

    journal_test.py
"""
import json
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

from one_model import OnOneModel

import lockstep

PROMPTS = [[3 + n, 7, 9] for n in range(40)]
SAMPLED = {"do_sample": True, "seed": 5, "num_return_sequences": 2, "max_new_tokens": 60, "eos_token_id": []}


def fields_of(done):
    return [(one.prompt, one.prompt_token_ids, [(answer.token_ids, answer.text, answer.finish_reason, answer.logprobs)
                                                for answer in one.outputs]) for one in done]


class Journals(OnOneModel):
    def journal(self):
        return self.folder / f"{self._testMethodName}.jsonl"

    def complete(self, prompts=PROMPTS, **options):
        return self.model.complete(prompts, progress=False, **(SAMPLED | options))

    def test_a_killed_process_goes_on_where_it_was(self):
        script = textwrap.dedent("""
            import json, sys
            import lockstep
            with lockstep.Model(sys.argv[1], tp=2, batch_size=4) as model:
                model.complete(json.loads(sys.argv[2]), journal=sys.argv[3], progress=False, **json.loads(sys.argv[4]))
        """)
        journal = self.journal()
        with subprocess.Popen([sys.executable, "-c", script, self.directory, json.dumps(PROMPTS * 20), journal,
                               json.dumps(SAMPLED)]) as process:
            deadline = time.monotonic() + 60
            while not journal.exists() or journal.read_bytes().count(b"\n") < 10:
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(process.poll())
            process.kill()
        self.assertEqual(process.returncode, -signal.SIGKILL)
        kept = journal.read_bytes().count(b"\n") - 1
        self.assertLess(kept, len(PROMPTS) * 20)
        before = self.model.counters["submitted"]
        found = self.complete(PROMPTS * 20, journal=journal)
        self.assertEqual(self.model.counters["submitted"] - before, len(PROMPTS) * 20 - kept)
        self.assertEqual(fields_of(found), fields_of(self.complete(PROMPTS * 20)))

    def test_a_second_call_computes_nothing(self):
        first = self.complete(journal=self.journal(), top_logprobs=2)
        before = self.model.counters["submitted"]
        self.assertEqual(self.complete(journal=self.journal(), top_logprobs=2), first)
        self.assertEqual(self.model.counters["submitted"], before)
        self.assertEqual(fields_of(first), fields_of(self.complete(top_logprobs=2)))

    def test_another_batch_is_refused(self):
        self.complete(PROMPTS[:2], journal=self.journal())
        content = self.journal().read_bytes()
        for prompts, options, words in ((PROMPTS[:3], {}, "prompts: 2 with the hash"), ([[4], [5]], {}, "prompts"),
                                        (PROMPTS[:2], {"seed": 6}, "generation options"),
                                        (PROMPTS[:2], {"skip_special_tokens": False}, "skip_special_tokens")):
            with self.assertRaisesRegex(lockstep.InputError, f"that of another batch \\({words}.*expected a new file"):
                self.complete(prompts, journal=self.journal(), **options)
        with lockstep.Model(self.directory, dtype="bfloat16") as model:
            with self.assertRaisesRegex(lockstep.InputError, "dtype: .*now "):
                model.complete(PROMPTS[:2], journal=self.journal(), progress=False, **SAMPLED)
        self.assertEqual(self.journal().read_bytes(), content)

    def test_the_degree_and_the_batch_size_may_change(self):
        first = self.complete(PROMPTS[:6], journal=self.journal())
        lines = self.journal().read_bytes().splitlines(keepends=True)
        self.journal().write_bytes(b"".join(lines[:4]))
        with lockstep.Model(self.directory, tp=1, batch_size=2) as model:
            self.assertEqual(model.complete(PROMPTS[:6], journal=self.journal(), progress=False, **SAMPLED), first)

    def test_a_line_that_was_cut_short_is_computed_again(self):
        first = self.complete(PROMPTS[:4], journal=self.journal())
        content = self.journal().read_bytes()
        for keep in (len(content) - 5, 20, 0):
            self.journal().write_bytes(content[:keep])
            self.assertEqual(self.complete(PROMPTS[:4], journal=self.journal()), first)
            self.assertEqual(sorted(self.journal().read_bytes().splitlines()), sorted(content.splitlines()))

    def test_other_files_and_damage_are_refused(self):
        for content, words in ((b"my notes", "another file"), (b"{}\n", "another file"), (b"[1]\nx\n", "another file")):
            self.journal().write_bytes(content)
            with self.assertRaisesRegex(lockstep.InputError, words):
                self.complete(PROMPTS[:1], journal=self.journal())
            self.assertEqual(self.journal().read_bytes(), content)
        self.journal().unlink()
        self.complete(PROMPTS[:2], journal=self.journal())
        lines = self.journal().read_bytes().splitlines(keepends=True)
        self.journal().write_bytes(lines[0] + b'{"row": 9}\n' + lines[2])
        with self.assertRaisesRegex(lockstep.InputError, "line 2 that is damaged"):
            self.complete(PROMPTS[:2], journal=self.journal())
        with self.assertRaisesRegex(lockstep.InputError, "a file that can be written"):
            self.complete(PROMPTS[:1], journal=self.folder)

    def test_two_calls_cannot_share_one(self):
        failures = []

        def call():
            try:
                self.complete(PROMPTS * 4, journal=self.journal())
            except lockstep.Error as error:
                failures.append(error)

        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([error.kind for error in failures], ["failed_precondition"])

    def test_functions_and_arrays_are_refused(self):
        with self.assertRaisesRegex(lockstep.InputError, "found functions"):
            self.complete(journal=self.journal(), logits_processor=[lambda ids, scores: scores])
        with self.assertRaisesRegex(lockstep.InputError, "found output_scores"):
            self.complete(journal=self.journal(), output_logits=True)
        self.assertFalse(self.journal().exists())

    def test_chats_have_journals_too(self):
        turns = [{"role": "user", "content": "Hi"}]
        first = self.model.chat(turns, max_new_tokens=4, journal=self.journal())
        self.assertEqual(self.model.chat(turns, max_new_tokens=4, journal=self.journal()), first)


if __name__ == "__main__":
    unittest.main(verbosity=2)
