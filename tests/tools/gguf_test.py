"""Conversion of GGUF tensors in pure Python."""
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import gguf_model  # noqa: E402
from gguf_bfloat16 import to_bfloat16  # noqa: E402
from gguf_file import ELEMENT_TYPES, Tensor  # noqa: E402


def converted(type_name, shape, raw):
    """The values as floats."""
    element = next(known for known in ELEMENT_TYPES.values() if known.name == type_name)
    data = to_bfloat16(Tensor("t", shape, element, memoryview(raw)))
    return [struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(0, len(data), 2)]


class ToBfloat16(unittest.TestCase):
    def test_float32_is_rounded_to_the_nearest_and_ties_to_even(self):
        bits = (0x3F808000, 0x3F818000, 0x3F808001, 0xBF807FFF)
        values = converted("F32", (4,), struct.pack("<4I", *bits))
        self.assertEqual(values, [1.0, 1.015625, 1.0078125, -1.0])

    def test_q4_1_has_all_low_nibbles_before_all_high_ones(self):
        packed = bytes(low | 15 - low << 4 for low in range(16))
        values = converted("Q4_1", (32,), struct.pack("<2e", 0.5, -1.0) + packed)
        expected = [0.5 * nibble - 1 for nibble in range(16)]
        self.assertEqual(values, expected + expected[::-1])

    def test_q8_0_is_signed(self):
        integers = list(range(-128, 128, 8))
        values = converted("Q8_0", (32,), struct.pack("<e32b", 0.25, *integers))
        self.assertEqual(values, [0.25 * integer for integer in integers])


class Shortest(unittest.TestCase):
    def test_is_the_decimal_that_was_meant(self):
        for text in ("1e-05", "10000.0", "100000.0", "0.3", "1e-06"):
            (rounded,) = struct.unpack("<f", struct.pack("<f", float(text)))
            self.assertEqual(gguf_model.shortest(rounded), float(text))


if __name__ == "__main__":
    unittest.main(verbosity=2)
