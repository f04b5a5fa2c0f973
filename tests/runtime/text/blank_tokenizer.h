// A tokenizer of Llama 2's type with a few tokens: a text's first blank is not part of it, and bytes have tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/text/tokenizer.h"

namespace lockstep::text {

// Ids of tokens that tests name.
inline constexpr int32_t kBegin = 1, kLineByte = 3, kByteE2 = 4, kByte82 = 5, kByteAc = 6, kThe = 7, kCapital = 8,
                         kIs = 9, kParis = 10, kLetterA = 11;

/// As a tokenizer.json.
inline constexpr const char* kBlankTokenizer = R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true, "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false},
                     {"id": 1, "content": "<s>", "special": true, "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                   {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": null,
    "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": false,
              "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "<0x0A>": 3, "<0xE2>": 4, "<0x82>": 5, "<0xAC>": 6,
                        "▁the": 7, "▁capital": 8, "▁is": 9, "▁Paris": 10, "a": 11},
              "merges": []}})";

inline std::unique_ptr<Tokenizer> blank_tokenizer() { return parse_tokenizer(kBlankTokenizer, "blank").value(); }

}  // namespace lockstep::text
