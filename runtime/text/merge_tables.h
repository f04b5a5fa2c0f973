// Fast reading of a byte-pair tokenizer.json. Vocabulary and merges are nearly all of its half a million values, and a
// plain parse builds a tree of them. Here they go directly from the text into two lists, and the rest becomes the
// document:
//
//   {"model": {"type": "BPE", "vocab": {…}, "merges": […]}, "decoder": …}
//                                      │            │          └─► document, with an empty vocab and merges
//                                      └────────────┴─► MergeTables
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::text {

struct MergeTables {
  /// Two adjacent tokens.
  struct Pair {
    std::string both;
    size_t split = 0;  // start of the right token

    std::string_view left() const { return std::string_view(both).substr(0, split); }
    std::string_view right() const { return std::string_view(both).substr(split); }
  };

  std::vector<std::pair<std::string, int64_t>> vocabulary;
  std::vector<Pair> merges;  // by rank

  bool empty() const { return vocabulary.empty() && merges.empty(); }
};

struct TokenizerDocument {
  nlohmann::json document;  // its numbers are those that the tokenizers package reads (json_number.h)
  MergeTables tables;       // empty if the model is not a byte-pair model
};

/// Empty when the text is not JSON, or anything in the tables is unusual; then a plain parse reports the error.
std::optional<TokenizerDocument> read_with_tables(std::string_view text);

}  // namespace lockstep::text
