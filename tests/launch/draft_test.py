"""`--draft-model` with another model: drafts are accepted and rejected, and the tokens stay the model's own."""
import json
import pathlib
import struct
import unittest

import launches
import tiny_model


def disturb(folder, scale):
    """Moves every weight of the model in `folder` a little, each by its own amount."""
    path = pathlib.Path(folder, "model.safetensors")
    data = bytearray(path.read_bytes())
    begin = 8 + struct.unpack_from("<Q", data)[0]
    count = (len(data) - begin) // 4
    values = struct.unpack_from(f"<{count}f", data, begin)
    moved = [value + scale * ((place * 2654435761 % 1024) / 512 - 1) for place, value in enumerate(values)]
    struct.pack_into(f"<{count}f", data, begin, *moved)
    path.write_bytes(data)


class Drafts(launches.Launches):
    DRAFTED = 3

    def speculation(self, scale, ranks):
        """What a run reports whose draft model is the model with disturbed weights."""
        draft = tiny_model.write(self.folder / f"draft-{scale}")
        disturb(draft, scale)
        name = f"drafted-{scale}-{ranks}"
        done = self.run_command([launches.PROGRAM, *self.arguments(name), "--launch", "threads", "--tp", ranks,
                                 "--draft-model", draft, "--num-assistant-tokens", self.DRAFTED])
        self.expect_tokens(done, name, ranks)
        return self.answer(name)["speculation"]

    def test_a_similar_model_has_some_of_its_tokens_accepted(self):
        similar = self.speculation(0.05, ranks=2)
        self.assertGreater(similar["accepted"], 0)
        self.assertLess(similar["accepted"], similar["drafted"])
        self.assertLessEqual(similar["drafted"], self.DRAFTED * similar["steps"])
        self.assertEqual(similar, self.speculation(0.05, ranks=1))

    def test_acceptance_falls_with_the_distance_between_the_models(self):
        same, similar, other = (self.speculation(scale, ranks=1) for scale in (0, 0.05, 3))
        rates = [each["accepted"] / each["drafted"] for each in (same, similar, other)]
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertGreater(rates[0], 0.8)
        self.assertLess(rates[2], 0.4)
        self.assertLess(same["steps"], other["steps"])


if __name__ == "__main__":
    launches.start_tests()
