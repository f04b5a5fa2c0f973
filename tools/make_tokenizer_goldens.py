#!/usr/bin/env python3
"""Trains small tokenizers in the styles of published model families and records the results of the `tokenizers` package
for hard text: tests/runtime/text/goldens/tokenizers/. The C++ tests must give the same ids and text.

  python tools/make_tokenizer_goldens.py [--model models/SmolLM2-135M-Instruct]

With --model it also records tests/model/goldens/smollm2_tokenizer.json. Needs the imported packages of
tools/requirements.txt; the goldens are committed, so run it only after changing a style.
"""

import argparse
import json
import pathlib
import random

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "runtime" / "text" / "goldens" / "tokenizers"
VOCABULARY = 420

TRAINING = [
    "The lighthouse keeper counted seventeen gulls before breakfast, and wrote the number in a small red book.",
    "She doesn't think they'll come; he's sure we've seen them, I'm not, and you'd better ask what they're doing.",
    "def area(width, height):\n    # a comment\n    return width * height  # 3.14 * 2\n\n\nfor (int i = 0; i < n; ++i) {\n\tx[i] += 1;\n}",
    "Prices rose from 1,234.50 to 98765 in 2024; the 3rd of 12 was 007.",
    "Der Fluß fließt über die Brücke, où l'été était déjà fini; el niño comió piña en el jardín.",
    "Быстрая лиса прыгает через ленивую собаку. Η γρήγορη αλεπού πηδάει.",
    "今天天气很好，我们去公园散步。東京の桜はとても綺麗です。한국어 문장도 하나 있습니다.",
    "هذا نص عربي قصير. यह एक छोटा हिन्दी वाक्य है। ข้อความภาษาไทย",
    "Smile 😀 and wave 👋🏽, family 👨‍👩‍👧‍👦, flags 🇩🇪🇯🇵.",
    "   leading and   inner    runs of spaces, \t tabs\t\t and\n\nnew\r\nlines.   ",
] * 4

# Texts that break tokenizers, one line for each reason.
CORPUS = [
    "",
    " ",
    "  ",
    "Hello, world!",
    " Hello  world ",
    "   three leading, two trailing  ",
    "tab\tand\ttabs\t\t\tend\t",
    "line\nbreak\n\nparagraph\r\nwindows\rold mac\n",
    "\n\n\n",
    " \n \n  \t \n",
    "mixed \u00a0no-break\u2003em\u3000ideographic\u200bzero\u2028line\u2029para\u0085nel\u180emvs\ufeffbom",
    "I'm you're he's they'll we've I'd can't 'S 'RE o'clock ''quotes'' 'tis",
    "I’m you’re typographic",
    "ſ 'ſ long s in a contraction don'ſ",
    "numbers 0 1 12 123 1234 12345 1234567890 3.14159 1,000,000 0x1F 1e-9 ½ ² ³ Ⅷ ⅓ 一二三 ١٢٣ १२३ ๑๒๓ 𝟘𝟙 ①②",
    "a1b2c3 x²y³ 10½ 5Ⅷ6",
    "emoji 😀😃 👍🏽👍🏿 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ ☺ 1️⃣",
    "中文字符，没有空格。日本語のテキスト、カタカナとひらがな。한국어 문장입니다",
    "العربية نص مع تشكيل: مُحَمَّدٌ ولَا رَيْبَ",
    "देवनागरी क्षत्रिय हिन्दी ज्ञ श्री किंतु",
    "ไทยไม่มีช่องว่าง ភាសាខ្មែរ தமிழ்",
    "עברית עם נִקּוּד",
    "café cafe\u0301 Å A\u030a \u212b ﬁ ﬂ ﷺ ½ ㎏ Ⓐ ℌ",
    "q\u0323\u0307 q\u0307\u0323 \u1e9b\u0323 a\u0315\u0300\u05ae\u0300b",
    "\u0301lone combining \u0300\u0301\u0302",
    "İstanbul ISPARTA ıssız ΣΊΣΥΦΟΣ ß ẞ ǅ Ω Ω",
    "def f(x):\n    return x  # comment\n\n\nclass A:\n\tdef __init__(self, *args, **kwargs):\n\t\tpass\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i] * 2; }  // C++\n#include <vector>\n",
    "{\"key\": [1, 2.5, null, true], \"nested\": {\"a\\n\": \"\\u00e9\"}}",
    "<html><body class='x'>&amp; &lt;</body></html> https://example.org/a/b?c=d&e=f#g user@example.com",
    "!!! ??? ... --- === *** ### $$$ %%% ^^^ &&& ~~~ ``` ||| \\\\\\ /// <<< >>>",
    "a.b,c;d:e!f?g(h)i[j]k{l}m'n\"o`p~q@r#s$t%u^v&w*x-y_z=+",
    "control \x00\x01\x02\x07\x08\x0b\x0c\x1b\x1f\x7f\x80\x9f end",
    "\x00",
    "nul\x00inside\x00\x00",
    "private \ue000\uf8ff noncharacter \ufffe\uffff \U0010ffff replacement \ufffd",
    "supplementary 𝒜𝓑𝕮 𐍈 𠜎𠜱 🀄 \U000e0041\U000e007f",
    "soft\u00adhyphen zero\u200cwidth\u200djoin \u200e\u200f\u202a\u202c\u2066\u2069",
    "averyveryverylongword" * 12,
    "a" * 300,
    "ab" * 150,
    " " * 300,
    "\n" * 120,
    "=" * 130,
    "😀" * 40,
    "字" * 60,
    "é" * 61,
    "\u0301" * 50,
    "The quick brown fox jumps over the lazy dog. THE QUICK BROWN FOX. ThE qUiCk",
    "snake_case camelCase PascalCase kebab-case SCREAMING_CASE x1_y2",
    "text <s> in </s> the <unk> middle<s>tight</s>",
    "<|endoftext|>",
    "a<|endoftext|>b <|endoftext|> c<|endoftext|><|endoftext|>",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_star|> <|im_start <|im_start||> |im_start|> <<|im_end|>>",
    "left   <left>   right   <right>   both   <both>   word<word> <word> <word>s x<word>y _<word>_",
    "<left><left> <right> <right>  <both>  <both>  ",
    "Normalized ADDEDword AddedWord addedword ädded",
    "<0x41> <0x0A> <0xFF> <0xE4><0xBD><0xA0>",
    "▁ metaspace▁in▁text ▁▁ _ Ġ Ċ ġ",
    "\u2581\u2581start",
    "  ▁ mixed ▁ ",
    "x\u0000\u0301y \u200d\u0301",
    "end with space ",
    "\tstart with tab",
    "ends with newline\n",
    "。、！？；：「」『』（）…—–‘’“”«»¿¡।۔،",
    "ÀÁÂÃÄÅ àáâãäå ÇçÑñÿŸ ŁłØøÞþÐð",
    "\u1100\u1161\u11a8 \uac01 \u1100\u1161 가각",
    "1\u0660\u06f0\u0966 ٣٫١٤ ۱۲۳",
    "x" * 70 + " " + "y" * 70 + "\n" + "z1" * 40,
]

GPT4_EXPRESSION = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BLOOM_EXPRESSION = r" ?[^(\s|[.,!?…。，、।۔،])]+"
MIXED_CASE_EXPRESSION = r"[\p{Lu}\p{Lt}\p{M}&&[^\p{Han}]]+[\p{Ll}]*|[\p{L}&&[^\p{Lu}]]+|\p{N}{1,3}|[^\s\p{L}\p{N}]+|\s+"
BYTE_ALPHABET = pre_tokenizers.ByteLevel.alphabet()
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def train_bpe(tokenizer, special, alphabet=(), **options):
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY + len(special),
        special_tokens=special,
        initial_alphabet=list(alphabet),
        show_progress=False,
        **options,
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


def special(*contents):
    return [AddedToken(content, special=True, normalized=False) for content in contents]


def smollm():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    t.decoder = decoders.ByteLevel()
    return train_bpe(t, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], BYTE_ALPHABET)


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    train_bpe(t, ["<|endoftext|>"], BYTE_ALPHABET)
    t.add_tokens(
        [
            AddedToken("<left>", lstrip=True),
            AddedToken("<right>", rstrip=True),
            AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
            AddedToken("<word>", single_word=True),
            AddedToken("addedword", single_word=True),
        ]
    )
    return t


def llama2():
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    train_bpe(t, ["<unk>", "<s>", "</s>"] + BYTE_TOKENS, limit_alphabet=80, max_token_length=12)
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(GPT4_EXPRESSION), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    train_bpe(t, [], BYTE_ALPHABET)
    t.add_special_tokens(special("<|begin_of_text|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    begin = ("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))
    t.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[begin]),
        ]
    )
    return t


def mistral():
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    t.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    train_bpe(t, ["<unk>", "<s>", "</s>"] + BYTE_TOKENS, limit_alphabet=80, max_token_length=12)
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return t


def qwen2():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(GPT4_EXPRESSION.replace("{1,3}", "")), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    train_bpe(t, [], BYTE_ALPHABET)
    t.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    t.add_tokens([AddedToken("ädded", normalized=True), AddedToken("cafe\u0301", normalized=True)])
    return t


def gemma():
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    train_bpe(t, ["<pad>", "<eos>", "<bos>", "<unk>"] + BYTE_TOKENS, limit_alphabet=80, max_token_length=12)
    t.add_tokens([AddedToken("\n" * n, normalized=False) for n in range(1, 8)])
    t.add_tokens([AddedToken("▁" * n, normalized=False) for n in range(2, 8)])
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    return t


def bloom():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(BLOOM_EXPRESSION), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=False)
    t.post_processor = processors.ByteLevel(trim_offsets=True)
    return train_bpe(t, ["<unk>", "<s>", "</s>", "<pad>"], BYTE_ALPHABET)


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
    )
    t.train_from_iterator(TRAINING, trainer)
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    return t


def unigram_bytes():
    t = unigram()
    described = json.loads(t.to_str())
    described["model"]["vocab"] += [[token, -12.5] for token in BYTE_TOKENS]
    described["model"]["byte_fallback"] = True
    described["normalizer"] = None
    described["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}
    described["decoder"] = (
        describe_decoder(decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")]))
    )
    return Tokenizer.from_str(json.dumps(described))


def describe_decoder(decoder):
    t = Tokenizer(models.BPE())
    t.decoder = decoder
    return json.loads(t.to_str())["decoder"]


def folded():
    """All folding normalisers, words with suffixes, separate unknowns, no decoder."""
    t = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>", continuing_subword_prefix="##"))
    t.normalizer = normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]
    )
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(False)]
    )
    train_bpe(t, ["[UNK]", "[CLS]", "[SEP]"], limit_alphabet=60, end_of_word_suffix="</w>", continuing_subword_prefix="##")
    t.add_tokens([AddedToken("AddedWord", normalized=True), AddedToken("<both>", lstrip=True, rstrip=True)])
    t.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return t


def mixed_case():
    """Intersections of classes, other split behaviours, NFD; unknowns are dropped."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.Strip(left=True, right=False), normalizers.NFD()])
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(",", "merged_with_next"),
            pre_tokenizers.Split(Regex(r"[aeiou]{2}"), "merged_with_previous"),
            pre_tokenizers.Split(Regex(MIXED_CASE_EXPRESSION), "removed", invert=True),
            pre_tokenizers.Split(Regex(r"\d"), "contiguous"),
            pre_tokenizers.WhitespaceSplit(),
        ]
    )
    t.decoder = decoders.Sequence([decoders.Strip("e", 0, 1), decoders.Fuse(), decoders.Strip("s", 2, 0)])
    return train_bpe(t, [], limit_alphabet=200)


STYLES = [smollm, gpt2, llama2, llama3, mistral, qwen2, gemma, bloom, unigram, unigram_bytes, folded, mixed_case]
OLD_MERGES = {"gpt2", "bloom"}  # written as "a b", the older form before pairs


def describe(tokenizer, old_merges):
    described = json.loads(tokenizer.to_str())
    if old_merges:
        described["model"]["merges"] = [" ".join(pair) for pair in described["model"]["merges"]]
    return described


def record(tokenizer, texts, seed, streams=25):
    """The package's results for `texts`, and for random ids: bytes that form no character, runs, special tokens."""
    cases = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=True).ids
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)}
        if plain != ids:
            case["plain"] = plain
        skipped = tokenizer.decode(ids, skip_special_tokens=True)
        if skipped != case["decoded"]:
            case["skipped"] = skipped
        cases.append(case)
    generator = random.Random(seed)
    known = sorted(tokenizer.get_vocab(with_added_tokens=True).values())
    # Half of them from the first ids, where special tokens and bytes are.
    pools = [known, known[:300]]
    decoded = []
    for i in range(streams):
        ids = [generator.choice(pools[i % 2]) for _ in range(generator.randint(1, 24))]
        decoded.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
    return {"tokenizers": tokenizers.__version__, "encode": cases, "decode": decoded}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, help="directory of the demo model")
    arguments = parser.parse_args()
    for number, make in enumerate(STYLES):
        described = describe(make(), make.__name__ in OLD_MERGES)
        tokenizer = Tokenizer.from_str(json.dumps(described))
        write(OUT / make.__name__ / "tokenizer.json", described)
        write(OUT / make.__name__ / "golden.json", record(tokenizer, CORPUS, seed=number))
    if arguments.model:
        tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
        write(ROOT / "tests" / "model" / "goldens" / "smollm2_tokenizer.json", record(tokenizer, CORPUS, seed=99))


if __name__ == "__main__":
    main()
