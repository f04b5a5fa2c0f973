"""docs/serving.md names every field that the protocols read or refuse.

    fields_test.py
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Fields of a body, as launcher/serve/api reads them: by its calls, and by its tables.
CALLS = r'body(?:\.find|\.flag_or|\.at|\.whole_within|\.text_or)\("(\w+)"|read_length\(body, "(\w+)"'
TABLES = r"kUnsupported\[\] = \{(.*?)\n\};|kNumbers\[\] = \{(.*?)\n\};|read_constraint\(.*?kFields\[\] = \{(.*?)\};"


def fields_of_the_protocols():
    found = set()
    for path in (ROOT / "launcher" / "serve" / "api").glob("*.cpp"):
        text = path.read_text()
        found |= {name for match in re.findall(CALLS, text) for name in match if name}
        for tables in re.findall(TABLES, text, re.DOTALL):
            found |= {name for table in tables for name in re.findall(r'\{"(\w+)"', table)}
    return found


class Fields(unittest.TestCase):
    def test_the_documents_name_every_field(self):
        section = (ROOT / "docs" / "serving.md").read_text().partition("\n## Fields\n")[2].partition("\n## ")[0]
        documented = set(re.findall(r"`(\w+)`", section))
        found = fields_of_the_protocols()
        self.assertLessEqual({"prompt", "messages", "top_p", "guided_json", "suffix", "container", "stop_sequences"}, found)
        self.assertEqual(found - documented, set())


if __name__ == "__main__":
    unittest.main()
