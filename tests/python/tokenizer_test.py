"""A tokenizer of the program in place of the model's: texts in and out, streams, chats, what is refused.

    tokenizer_test.py
"""
import asyncio
import unittest

import numpy as np
from one_model import WithDirectory

import lockstep


class Bytes:
    """Ids 3 to 258 are bytes, modulo the model's vocabulary; so a character may have several tokens."""

    def encode(self, text, add_special_tokens=True):
        return [1] * add_special_tokens + [3 + byte % 125 for byte in text.encode()]

    def decode(self, ids, skip_special_tokens=False):
        text, data = "", b""
        for token in ids:
            if token >= 3:
                data += self.bytes_of(token)
                continue
            text += data.decode(errors="replace") + ("" if skip_special_tokens else f"<{token}>")
            data = b""
        return text + data.decode(errors="replace")

    def bytes_of(self, token):
        return ("\u20ac".encode()[token % 3:token % 3 + 1] if token % 2 else bytes([65 + token % 26]))

    def apply_chat_template(self, conversation, tokenize=True, add_generation_prompt=False, tools=None, **variables):
        return "".join(turn["content"] for turn in conversation) + "!" * add_generation_prompt


class Given(WithDirectory):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.directory / "tokenizer.json").unlink()  # the model takes ids only
        cls.tokenizer = Bytes()
        cls.model = lockstep.Model(cls.directory, batch_size=4, tokenizer=cls.tokenizer)
        cls.addClassCleanup(cls.model.close)

    def test_texts_in_and_out(self):
        done = self.model.complete("Hi", max_new_tokens=9, eos_token_id=[])[0]
        ids = self.model.generate([self.tokenizer.encode("Hi")], max_new_tokens=9, eos_token_id=[])[0]
        self.assertEqual(done.prompt_token_ids + done.outputs[0].token_ids, ids)
        self.assertEqual(done.text, self.tokenizer.decode(done.outputs[0].token_ids, skip_special_tokens=True))
        self.assertEqual(done.outputs[0].finish_reason, "length")
        self.assertIn(repr(done.text), repr(done.outputs[0]))

    def test_a_text_has_special_tokens_where_asked_but_no_end_token(self):
        token = self.model.complete("Hi", max_new_tokens=1, eos_token_id=[])[0].outputs[0].token_ids[0]
        answer = self.model.complete("Hi", max_new_tokens=4, eos_token_id=token, skip_special_tokens=False)[0].outputs[0]
        self.assertEqual((answer.token_ids, answer.text, answer.finish_reason), ([token], "", "eos"))

        def pads(ids, scores):
            scores[:, 1:] = -np.inf
            return scores

        answer = self.model.complete("Hi", max_new_tokens=2, logits_processor=[pads], skip_special_tokens=False)[0]
        self.assertEqual(answer.text, "<0><0>")
        self.assertEqual(self.model.complete("Hi", max_new_tokens=2, logits_processor=[pads])[0].text, "")

    def test_streams_have_whole_characters(self):
        for seed in range(8):
            options = {"max_new_tokens": 24, "eos_token_id": [], "do_sample": True, "seed": seed, "temperature": 3.0}
            expected = self.model.complete("Hi", **options)[0]
            stream = self.model.stream("Hi", **options)
            tokens = list(stream)
            self.assertEqual("".join(map(str, tokens)), expected.text)
            self.assertEqual([token.id for token in tokens if token.id is not None], expected.outputs[0].token_ids)
            self.assertEqual(stream.answers[0].text, expected.text)

    def test_asynchronous_streams(self):
        async def read():
            return "".join([str(token) async for token in self.model.stream("Hi", max_new_tokens=9, eos_token_id=[])])

        self.assertEqual(asyncio.run(read()), self.model.complete("Hi", max_new_tokens=9, eos_token_id=[])[0].text)

    def test_answers_of_a_journal_have_its_texts(self):
        options = {"max_new_tokens": 5, "eos_token_id": [], "progress": False}
        expected = self.model.complete(["Hi", "Ho"], **options)
        for _ in range(2):
            done = self.model.complete(["Hi", "Ho"], journal=self.folder / "journal", **options)
            self.assertEqual([one.text for one in done], [one.text for one in expected])

    def test_chats_use_its_template(self):
        chat = self.model.chat([{"role": "user", "content": "Hi"}], max_new_tokens=5)[0]
        self.assertEqual(chat.prompt_token_ids, self.tokenizer.encode("Hi!", add_special_tokens=False))

    def test_its_other_attributes_are_reachable(self):
        self.assertEqual(self.model.tokenizer.bytes_of(4), self.tokenizer.bytes_of(4))
        self.assertIs(self.model.tokenizer.wrapped, self.tokenizer)
        self.assertEqual(self.model.tokenizer.vocab_size, 128)

    def test_what_is_refused(self):
        for call in (self.model.complete, self.model.stream):
            with self.assertRaisesRegex(lockstep.InputError, "found stop_strings beside a tokenizer of the program"):
                call("Hi", stop_strings="x")
        with self.assertRaisesRegex(TypeError, "found a dict without encode"):
            lockstep.Model(self.directory, tokenizer={})

        class Large(Bytes):
            def encode(self, text, add_special_tokens=True):
                return [200]

        with lockstep.Model(self.directory, tokenizer=Large()) as model:
            with self.assertRaisesRegex(lockstep.InputError, "token id 200 in row 0, expected ids of 0 to 127"):
                model.complete("Hi")


if __name__ == "__main__":
    unittest.main(verbosity=2)
