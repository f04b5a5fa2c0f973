// The ways to cut text before byte-pair encoding, by the names in GGUF files. Private to this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::gguf {

struct PreTokenizer {
  nlohmann::json normalizer;     // of tokenizer.json; null: none
  nlohmann::json pre_tokenizer;  // of tokenizer.json
  bool ignore_merges = false;    // a piece that is a token stays whole
};

/// The pre-tokeniser `name` (tokenizer.ggml.pre); empty if it is not known. Its parts are those that the tokenizers of
/// these models have on the hub.
std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name);

/// All names, for messages.
std::vector<std::string_view> pre_tokenizer_names();

}  // namespace lockstep::gguf
