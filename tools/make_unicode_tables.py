#!/usr/bin/env python3
"""Records where the Unicode tables of the `tokenizers` package differ from Unicode 14, the version of Debian 12's PCRE2
(its utf8proc has Unicode 15): runtime/text/unicode_tables.cpp.

  python tools/make_unicode_tables.py

Asks the package about every code point that may be a character. Needs the imported packages of tools/requirements.txt
and a Python with Unicode 14 (3.11); run it after changing the version of tokenizers.
"""

import pathlib
import subprocess
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parent.parent / "runtime" / "text" / "unicode_tables.cpp"
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
# Scripts of Unicode 14 with characters that are newer, and their short names.
SCRIPTS = {
    "Arabic": "Arab", "Balinese": "Bali", "Common": "Zyyy", "Cyrillic": "Cyrl", "Devanagari": "Deva",
    "Egyptian_Hieroglyphs": "Egyp", "Han": "Hani", "Hiragana": "Hira", "Inherited": "Zinh", "Kannada": "Knda",
    "Katakana": "Kana", "Khitan_Small_Script": "Kits", "Khojki": "Khoj", "Lao": "Laoo", "Latin": "Latn",
    "Myanmar": "Mymr",
}
# The planes between and above these have no characters or are private.
POINTS = [*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000)]
TEXT = "".join(map(chr, POINTS))
UNICODE_15_FORMS = set(range(0x1E030, 0x1E06E))  # utf8proc decomposes these, Unicode 14 and the package do not
ASCII_PUNCTUATION = set(map(ord, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))


def matched(expression):
    rest = pre_tokenizers.Split(Regex(f"(?:{expression})+"), "removed").pre_tokenize_str(TEXT)
    points = set(POINTS)
    for _, (begin, end) in rest:
        points.difference_update(POINTS[begin:end])
    return points


def isolated(pre_tokenizer):
    """The code points that it cuts off between letters."""
    found = set()
    for first in range(0, len(POINTS), 4096):
        part = POINTS[first : first + 4096]
        starts = {begin for _, (begin, _) in pre_tokenizer.pre_tokenize_str("a" + "a".join(map(chr, part)) + "a")}
        found.update(c for i, c in enumerate(part) if 2 * i + 1 in starts)
    return found


def runs(value_of):
    """Runs of neighbouring code points with equal values: [first, last, value]."""
    out = []
    for c in sorted(value_of):
        if out and out[-1][1] == c - 1 and out[-1][2] == value_of[c]:
            out[-1][1] = c
        else:
            out.append([c, c, value_of[c]])
    return out


def ranges(name, comment, points):
    rows = "".join(f"{{0x{a:X}, 0x{b:X}}}, " for a, b, _ in runs(dict.fromkeys(points, 0)))
    return f"// {comment}\nconstexpr CharRange {name}[] = {{{rows[:-2]}}};\n"


def new_chars():
    now = dict.fromkeys(POINTS, "Cn")
    for category in CATEGORIES:
        now.update(dict.fromkeys(matched(rf"\p{{{category}}}"), category))
    was = {c: unicodedata.category(chr(c)) for c in POINTS}
    changed = [c for c in POINTS if now[c] != was[c]]
    script = {}
    for name in SCRIPTS:
        script.update(dict.fromkeys(matched(rf"\p{{{name}}}"), name))
    flags = dict.fromkeys(changed, "")
    for flag, name in (("a", "Alphabetic"), ("l", "Lowercase"), ("u", "Uppercase")):
        for c in matched(rf"\p{{{name}}}").intersection(changed):
            flags[c] += flag
    rows = {}
    for c in changed:
        name = script.get(c, "") if was[c] == "Cn" else ""
        rows[c] = f'"{now[c]}", "{was[c]}", "{name}", "{SCRIPTS.get(name, "")}", "{flags[c]}"'
    return now, "".join(f"    {{{{0x{a:X}, 0x{b:X}}}, {values}}},\n" for a, b, values in runs(rows))


def lower_cases():
    lower = normalizers.Lowercase()
    offset_of = {}
    for c in POINTS:
        theirs = lower.normalize_str(chr(c))
        if theirs != chr(c).lower():
            assert len(theirs) == 1, hex(c)
            offset_of[c] = ord(theirs) - c
    return "".join(f"    {{{{0x{a:X}, 0x{b:X}}}, {offset}}},\n" for a, b, offset in runs(offset_of))


def differing(form):
    theirs = getattr(normalizers, form)()
    points = {c for c in POINTS if theirs.normalize_str(chr(c)) != unicodedata.normalize(form, chr(c))}
    assert all(theirs.normalize_str(chr(c)) == chr(c) for c in points), form
    return points


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    now, chars = new_chars()
    of = lambda initial: {c for c in POINTS if now[c].startswith(initial)}
    accents = normalizers.StripAccents()
    marks = {c for c in POINTS if accents.normalize_str(chr(c)) == ""}
    version = tokenizers.__version__
    source = f"""// Differences of tokenizers {version} from Unicode 14; written by tools/make_unicode_tables.py.
#include "runtime/text/unicode_tables.h"

namespace lockstep::text {{
namespace {{

constexpr NewChars kNewChars[] = {{
{chars}}};

constexpr LowerCase kLowerCases[] = {{
{lower_cases()}}};

{ranges("kNumerals", "Digits counts these as well.", isolated(pre_tokenizers.Digits(True)) - of("N"))}
{ranges("kPunctuation", "For Punctuation, these are punctuation if and only if their category is another.",
        isolated(pre_tokenizers.Punctuation("isolated")) ^ (of("P") | ASCII_PUNCTUATION))}
{ranges("kAccents", "For StripAccents, these are marks if and only if their category is another.", marks ^ of("M"))}
{ranges("kCanonical", "No normal form decomposes these.", differing("NFD"))}
{ranges("kCompatible", "NFKC and NFKD do not decompose these.",
        (differing("NFKD") - differing("NFD")) | UNICODE_15_FORMS)}
}}  // namespace

std::span<const NewChars> new_chars() {{ return kNewChars; }}
std::span<const LowerCase> new_lower_cases() {{ return kLowerCases; }}

std::span<const CharRange> exceptions(UnicodeUse use) {{
  switch (use) {{
    case UnicodeUse::kDigits:
      return kNumerals;
    case UnicodeUse::kPunctuation:
      return kPunctuation;
    case UnicodeUse::kStripAccents:
      return kAccents;
    case UnicodeUse::kDecompose:
      return kCanonical;
    case UnicodeUse::kDecomposeCompatible:
      return kCompatible;
  }}
  return {{}};
}}

}}  // namespace lockstep::text
"""
    OUT.write_text(source)
    subprocess.run(["/usr/lib/llvm-14/bin/clang-format", "-i", OUT], check=True)


if __name__ == "__main__":
    main()
