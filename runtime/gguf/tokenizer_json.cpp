// tokenizer.json and tokenizer_config.json of a GGUF model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/gguf/derived_files.h"
#include "runtime/gguf/metadata.h"
#include "runtime/gguf/pre_tokenizers.h"
#include "runtime/gguf/read_error.h"
#include "runtime/gguf/sentence_merges.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

/// tokenizer.ggml.token_type.
enum TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4 };

constexpr const char* kSpace = "▁";  // stands for a space in SentencePiece's tokens

/// What the metadata has about tokens.
struct Vocabulary {
  std::string model, pre, architecture;
  std::vector<std::string> tokens;
  std::vector<double> types, scores;  // of each token; may be empty
  std::vector<std::string_view> merges;
  TokenIds ids;  // views of `tokens`
  std::optional<int64_t> bos, eos, unknown;
  std::optional<bool> add_bos, add_eos, add_space;

  bool is_gemma() const { return architecture.starts_with("gemma"); }
};

/// A run of spaces as SentencePiece has it; Gemma's files have spaces themselves.
std::string respelled(std::string_view token) {
  if (token.empty() || token.find_first_not_of(' ') != std::string_view::npos) return std::string(token);
  std::string runs;
  for (size_t i = 0; i < token.size(); ++i) runs += kSpace;
  return runs;
}

Result<void> read_tokens(const GgufHeader& header, Vocabulary& vocabulary) {
  LOCKSTEP_TRY(const auto tokens, texts_of(header, "tokenizer.ggml.tokens"));
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!is_utf8(tokens[id])) {
      return damaged(header.path, fmt::format("found token {} that is not UTF-8, expected text", id));
    }
    vocabulary.tokens.push_back(vocabulary.is_gemma() ? respelled(tokens[id]) : std::string(tokens[id]));
  }
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    if (!vocabulary.ids.emplace(token, static_cast<int64_t>(id)).second) {
      return damaged(header.path, fmt::format("found the token \"{}\" twice (ids {} and {}), expected it once", token,
                                              vocabulary.ids[token], id));
    }
  }
  if (!vocabulary.tokens.empty()) return ok();
  return damaged(header.path, "found no tokens in key tokenizer.ggml.tokens, expected the vocabulary");
}

Result<void> read_lists(const GgufHeader& header, Vocabulary& vocabulary) {
  LOCKSTEP_TRY(vocabulary.types, numbers_of(header, "tokenizer.ggml.token_type"));
  LOCKSTEP_TRY(vocabulary.scores, numbers_of(header, "tokenizer.ggml.scores"));
  LOCKSTEP_TRY(vocabulary.merges, texts_of(header, "tokenizer.ggml.merges"));
  for (const auto* list : {&vocabulary.types, &vocabulary.scores}) {
    if (list->empty() || list->size() == vocabulary.tokens.size()) continue;
    return damaged(header.path, fmt::format("found {} {} of tokens, expected {}", list->size(),
                                            list == &vocabulary.types ? "types" : "scores", vocabulary.tokens.size()));
  }
  return ok();
}

/// The id of a special token; empty if there is none.
Result<std::optional<int64_t>> special_id(const GgufHeader& header, std::string_view name,
                                          const Vocabulary& vocabulary) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  LOCKSTEP_TRY(const auto id, integer_of(header, key));
  if (!id || (*id >= 0 && *id < std::ssize(vocabulary.tokens))) return id;
  return damaged(header.path,
                 fmt::format("found id {} in key {}, expected 0 to {}", *id, key, vocabulary.tokens.size() - 1));
}

Result<Vocabulary> read_vocabulary(const GgufModel& model) {
  const GgufHeader& header = model.parts.front();
  Vocabulary vocabulary;
  LOCKSTEP_TRY(const auto name, text_of(header, "tokenizer.ggml.model"));
  LOCKSTEP_TRY(const auto pre, text_of(header, "tokenizer.ggml.pre"));
  LOCKSTEP_TRY(const auto architecture, text_of(header, "general.architecture"));
  vocabulary.model = name.value_or("");
  vocabulary.pre = pre.value_or("");
  vocabulary.architecture = architecture.value_or("");
  LOCKSTEP_TRY_VOID(read_tokens(header, vocabulary));
  LOCKSTEP_TRY_VOID(read_lists(header, vocabulary));
  LOCKSTEP_TRY(vocabulary.bos, special_id(header, "bos", vocabulary));
  LOCKSTEP_TRY(vocabulary.eos, special_id(header, "eos", vocabulary));
  LOCKSTEP_TRY(vocabulary.unknown, special_id(header, "unknown", vocabulary));
  LOCKSTEP_TRY(vocabulary.add_bos, boolean_of(header, "tokenizer.ggml.add_bos_token"));
  LOCKSTEP_TRY(vocabulary.add_eos, boolean_of(header, "tokenizer.ggml.add_eos_token"));
  LOCKSTEP_TRY(vocabulary.add_space, boolean_of(header, "tokenizer.ggml.add_space_prefix"));
  return vocabulary;
}

/// Control tokens (special) and those that a user defined.
json added_tokens(const Vocabulary& vocabulary) {
  json added = json::array();
  for (size_t id = 0; id < vocabulary.types.size(); ++id) {
    const auto type = static_cast<int>(vocabulary.types[id]);
    const bool is_run = vocabulary.is_gemma() && vocabulary.tokens[id].starts_with(kSpace);  // an ordinary token
    const bool is_special = type == kControl || type == kUnknown;
    if (vocabulary.tokens[id].empty() || (!is_special && (type != kUserDefined || is_run))) continue;
    added.push_back({{"id", id},
                     {"content", vocabulary.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", is_special}});
  }
  return added;
}

/// Adds the first and the last token; null if there are none.
json post_processor(const Vocabulary& vocabulary, bool adds_bos) {
  const bool adds_eos = vocabulary.add_eos.value_or(false) && vocabulary.eos;
  json single = json::array(), pair = json::array(), tokens = json::object();
  const auto add = [&](int64_t id, json& list, int type) {
    const std::string& token = vocabulary.tokens[static_cast<size_t>(id)];
    list.push_back({{"SpecialToken", {{"id", token}, {"type_id", type}}}});
    tokens[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  };
  const auto add_sequence = [&](const char* name, json& list, int type) {
    if (adds_bos && vocabulary.bos) add(*vocabulary.bos, list, type);
    list.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    if (adds_eos) add(*vocabulary.eos, list, type);
  };
  add_sequence("A", single, 0);
  add_sequence("A", pair, 0);
  add_sequence("B", pair, 1);
  if (tokens.empty()) return json();
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

json pair_of(std::string_view left, std::string_view right) { return json::array({left, right}); }

/// The model of byte-pair encoding.
Result<json> bpe_model(const GgufHeader& header, const Vocabulary& vocabulary) {
  json vocab = json::object(), merges = json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) vocab[vocabulary.tokens[id]] = id;
  for (const std::string_view merge : vocabulary.merges) {
    const size_t space = merge.empty() ? std::string_view::npos : merge.find(' ', 1);
    if (space == std::string_view::npos || !is_utf8(merge)) {
      return damaged(header.path, fmt::format("found a merge of {} bytes without two parts, expected two tokens and a "
                                              "space between them",
                                              merge.size()));
    }
    merges.push_back(pair_of(merge.substr(0, space), merge.substr(space + 1)));
  }
  return json{{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", nullptr},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", false},
              {"byte_fallback", false},
              {"ignore_merges", false},
              {"vocab", std::move(vocab)},
              {"merges", std::move(merges)}};
}

Result<json> byte_level_tokenizer(const GgufHeader& header, const Vocabulary& vocabulary) {
  const auto pre = find_pre_tokenizer(vocabulary.pre);
  if (!pre) {
    return unsupported(header.path, fmt::format("found the pre-tokeniser \"{}\", expected one of: {}", vocabulary.pre,
                                                fmt::join(pre_tokenizer_names(), ", ")));
  }
  LOCKSTEP_TRY(json model, bpe_model(header, vocabulary));
  model["ignore_merges"] = pre->ignore_merges;
  return json{
      {"normalizer", pre->normalizer},
      {"pre_tokenizer", pre->pre_tokenizer},
      {"post_processor", post_processor(vocabulary, vocabulary.add_bos.value_or(pre->ignore_merges))},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model", std::move(model)}};
}

/// Spaces as ▁, one of them before the text if the model has it so.
json space_normalizer(bool adds_space) {
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
  if (!adds_space) return replace;
  return {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", kSpace}}, replace}}};
}

json space_decoder(bool adds_space) {
  json stages = {{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                 {{"type", "ByteFallback"}},
                 {{"type", "Fuse"}}};
  if (adds_space) stages.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(stages)}};
}

/// The merges of a vocabulary without a list of them: by scores, and in Gemma by ids, which its scores do not follow.
Result<json> sentence_merges(const GgufHeader& header, const Vocabulary& vocabulary) {
  std::vector<double> scores = vocabulary.scores;
  if (vocabulary.is_gemma()) {
    scores.resize(vocabulary.tokens.size());
    for (size_t id = 0; id < scores.size(); ++id) scores[id] = -static_cast<double>(id);
  }
  if (scores.empty()) return damaged(header.path, "found no key tokenizer.ggml.scores, expected a score per token");
  json merges = json::array();
  for (const auto& [left, right] : implied_merges(vocabulary.tokens, scores, vocabulary.ids)) {
    merges.push_back(pair_of(left, right));
  }
  return merges;
}

Result<json> sentence_tokenizer(const GgufHeader& header, const Vocabulary& vocabulary) {
  const bool adds_space = vocabulary.add_space.value_or(!vocabulary.is_gemma());
  LOCKSTEP_TRY(json model, bpe_model(header, vocabulary));
  if (vocabulary.merges.empty()) {
    LOCKSTEP_TRY(model["merges"], sentence_merges(header, vocabulary));
  }
  model["byte_fallback"] = model["fuse_unk"] = true;
  const auto unknown = vocabulary.unknown ? vocabulary.unknown : std::optional<int64_t>(0);
  model["unk_token"] = vocabulary.tokens[static_cast<size_t>(*unknown)];
  return json{{"normalizer", space_normalizer(adds_space)},
              {"pre_tokenizer", nullptr},
              {"post_processor", post_processor(vocabulary, vocabulary.add_bos.value_or(true))},
              {"decoder", space_decoder(adds_space)},
              {"model", std::move(model)}};
}

}  // namespace

Result<json> make_tokenizer(const GgufModel& model) {
  const GgufHeader& header = model.parts.front();
  if (header.find("tokenizer.ggml.model") == nullptr) return json();
  LOCKSTEP_TRY(const Vocabulary vocabulary, read_vocabulary(model));
  json tokenizer;
  if (vocabulary.model == "gpt2") {
    LOCKSTEP_TRY(tokenizer, byte_level_tokenizer(header, vocabulary));
  } else if (vocabulary.model == "llama" || vocabulary.model == "gemma4") {
    LOCKSTEP_TRY(tokenizer, sentence_tokenizer(header, vocabulary));
  } else {
    return unsupported(header.path,
                       fmt::format("found the tokenizer \"{}\", expected gpt2, llama or gemma4", vocabulary.model));
  }
  tokenizer["version"] = "1.0";
  tokenizer["truncation"] = tokenizer["padding"] = nullptr;
  tokenizer["added_tokens"] = added_tokens(vocabulary);
  return tokenizer;
}

Result<json> make_tokenizer_config(const GgufModel& model) {
  const GgufHeader& header = model.parts.front();
  LOCKSTEP_TRY(const auto chat, text_of(header, "tokenizer.chat_template"));
  LOCKSTEP_TRY(const auto tokens, texts_of(header, "tokenizer.ggml.tokens"));
  json config = json::object();
  if (chat) config["chat_template"] = *chat;
  for (const std::string_view name : {"bos", "eos"}) {
    LOCKSTEP_TRY(const auto id, integer_of(header, fmt::format("tokenizer.ggml.{}_token_id", name)));
    if (!id || *id < 0 || *id >= std::ssize(tokens) || !is_utf8(tokens[static_cast<size_t>(*id)])) continue;
    config[fmt::format("{}_token", name)] = tokens[static_cast<size_t>(*id)];
  }
  return config;
}

}  // namespace lockstep::gguf
