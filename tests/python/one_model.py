"""Tests that share an open tiny model with a tokenizer and a chat template."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import numpy as np
import test_folder
import tiny_model

import lockstep

PROMPT = [1, 17, 23, 99]
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


def embedding_table(directory):
    """The model's embeddings, float32 [vocabulary, size]."""
    data = (directory / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensor = json.loads(data[8:begin])["model.embed_tokens.weight"]
    first, end = tensor["data_offsets"]
    return np.frombuffer(data[begin + first:begin + end], np.float32).reshape(tensor["shape"])


class WithDirectory(test_folder.FolderTests):
    """`cls.directory` is the model's."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = tiny_model.write(cls.folder / "model")
        tiny_model.write_tokenizer(cls.directory)
        (cls.directory / "chat_template.jinja").write_text(CHAT)


class OnOneModel(WithDirectory):
    """`cls.model` is open on two ranks, with four slots and `OPTIONS`."""

    OPTIONS = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = lockstep.Model(cls.directory, tp=2, batch_size=4, **cls.OPTIONS)
        cls.addClassCleanup(cls.model.close)

    def new_ids(self, **options):
        """The new ids of PROMPT."""
        return self.model.generate([PROMPT], **({"max_new_tokens": 8} | options))[0][len(PROMPT):]
