"""Speculative decoding with tiny models: a draft model, drafts from the text so far, and assistant_model of generate.

    drafting_test.py
"""
import unittest

import one_model
import tiny_model

import lockstep

REPEATING = [5, 6, 7, 8] * 6


class Drafting(one_model.WithDirectory):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.draft = tiny_model.write(cls.folder / "draft")
        with lockstep.Model(cls.directory, batch_size=2) as model:
            cls.expected = cls.answers_of(model)
        cls.model = lockstep.Model(cls.directory, tp=2, batch_size=2, draft_model=cls.draft, num_assistant_tokens=3)
        cls.addClassCleanup(cls.model.close)

    @staticmethod
    def answers_of(model):
        return [model.generate([[1, 17], REPEATING], max_new_tokens=20, eos_token_id=[], **options)
                for options in ({}, {"do_sample": True, "seed": 7, "temperature": 1.5})]

    def test_a_draft_model_changes_no_answer(self):
        self.assertEqual(self.answers_of(self.model), self.expected)
        self.assertEqual(self.model.facts["drafts"], 3)
        model = lockstep.Model(self.directory, draft_model=self.draft, num_assistant_tokens=3)
        model.generate([[1, 17]], max_new_tokens=20, eos_token_id=[])
        self.assertLess(len(model.timeline().steps), 10)  # the draft model is the model: it guesses right
        model.close()
        self.assertGreater(model.counters["accepted"], 10)
        self.assertGreaterEqual(model.counters["drafted"], model.counters["accepted"])

    def test_drafts_from_the_text_so_far_change_no_answer(self):
        with lockstep.Model(self.directory, batch_size=2, prompt_lookup_num_tokens=4) as model:
            self.assertEqual(self.answers_of(model), self.expected)
        self.assertGreater(model.counters["drafted"], 0)

    def test_generate_takes_the_draft_model_as_its_assistant(self):
        class OfTransformers:
            name_or_path = str(self.draft)

        for assistant in (self.draft, str(self.draft), OfTransformers()):
            found = self.model.generate([[1, 17], REPEATING], max_new_tokens=20, eos_token_id=[], assistant_model=assistant)
            self.assertEqual(found, self.expected[0])

    def test_other_assistants_are_refused(self):
        for assistant, words in ((self.directory, "for draft_model="), (object(), r"assistant_model \(object\)")):
            with self.assertRaisesRegex(lockstep.InputError, words):
                self.model.generate([[1]], assistant_model=assistant)
        with lockstep.Model(self.directory) as model:
            with self.assertRaisesRegex(lockstep.InputError, "opened without draft_model.*open lockstep.Model"):
                model.generate([[1]], assistant_model=self.draft)

    def test_options_that_contradict(self):
        for options, words in (({"num_assistant_tokens": 3}, "without draft_model"),
                               ({"draft_model": self.draft, "prompt_lookup_num_tokens": 2}, "one of them"),
                               ({"draft_model": self.draft, "num_assistant_tokens": 0}, "num_assistant_tokens=0"),
                               ({"draft_model": self.folder / "nothing"}, "config.json")):
            with self.assertRaisesRegex(lockstep.InputError, words):
                lockstep.Model(self.directory, **options)
        with self.assertRaisesRegex(lockstep.Error, "beside drafted tokens"):
            self.model.generate([[1]], logits_processor=[lambda ids, scores: scores])

    def test_verify_is_among_the_graphs(self):
        self.assertEqual(self.model.graph("verify").name, "verify")


if __name__ == "__main__":
    unittest.main(verbosity=2)
