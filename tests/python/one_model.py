"""Tests that share an open tiny model with a tokenizer and a chat template."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import test_folder
import tiny_model

import lockstep

PROMPT = [1, 17, 23, 99]
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


class WithDirectory(test_folder.FolderTests):
    """`cls.directory` is the model's."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = tiny_model.write(cls.folder / "model")
        tiny_model.write_tokenizer(cls.directory)
        (cls.directory / "chat_template.jinja").write_text(CHAT)


class OnOneModel(WithDirectory):
    """`cls.model` is open on two ranks, with four slots."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = lockstep.Model(cls.directory, tp=2, batch_size=4)
        cls.addClassCleanup(cls.model.close)

    def new_ids(self, **options):
        """The new ids of PROMPT."""
        return self.model.generate([PROMPT], **({"max_new_tokens": 8} | options))[0][len(PROMPT):]
