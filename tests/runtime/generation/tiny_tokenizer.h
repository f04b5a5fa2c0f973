// A byte-level tokenizer of a few tokens: single letters, some pairs, and the three bytes of "€" one by one.
#pragma once

#include <memory>

#include "runtime/text/tokenizer.h"

namespace lockstep::generation {

// Ids of tokens that tests name.
inline constexpr int32_t kA = 0, kB = 1, kC = 2, kSpace = 3, kNewline = 4, kAb = 5, kBc = 6, kEuro1 = 7, kEuro2 = 8,
                         kEuro3 = 9, kEnd = 10;

/// As a tokenizer.json.
inline constexpr const char* kTinyTokenizer = R"({
    "added_tokens": [{"id": 10, "content": "<end>", "special": true, "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
              "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "Ċ": 4, "ab": 5, "bc": 6, "â": 7, "Ĥ": 8, "¬": 9},
              "merges": ["a b", "b c"]}})";

inline std::unique_ptr<text::Tokenizer> tiny_tokenizer() {
  return text::parse_tokenizer(kTinyTokenizer, "tiny").value();
}

}  // namespace lockstep::generation
