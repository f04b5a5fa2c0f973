#include "runtime/gguf/pre_tokenizers.h"

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::gguf {
namespace {

using nlohmann::json;

/// Families of pieces.
enum class Cut {
  kWords,           // GPT-2's expression
  kDigitsAndWords,  // every digit alone, then GPT-2's
  kFalcon,
  kExpression,  // one expression, then bytes
  kDeepseekCoder,
  kDeepseekV3,
};

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kBloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
constexpr const char* kDeepseekV3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct NamedCut {
  std::string_view name;
  Cut cut = Cut::kWords;
  const char* expression = nullptr;
  bool composes = false;  // normal form C first
  bool ignore_merges = false;
};

constexpr NamedCut kCuts[] = {
    {"bloom", Cut::kExpression, kBloom},
    {"chatglm-bpe", Cut::kExpression, kLlama3},
    {"codeshell", Cut::kDigitsAndWords},
    {"command-r", Cut::kDigitsAndWords, nullptr, /*composes=*/true},
    {"dbrx", Cut::kExpression, kLlama3},
    {"deepseek-coder", Cut::kDeepseekCoder},
    {"deepseek-r1-qwen", Cut::kExpression, kQwen2},
    {"deepseek-v3", Cut::kDeepseekV3, kDeepseekV3Words},
    {"exaone", Cut::kDigitsAndWords},
    {"exaone4", Cut::kWords},
    {"falcon", Cut::kFalcon},
    {"falcon3", Cut::kExpression, kLlama3, false, /*ignore_merges=*/true},
    {"glm4", Cut::kExpression, kLlama3},
    {"gpt-2", Cut::kWords},
    {"gpt-4o", Cut::kExpression, kGpt4o},
    {"hunyuan-dense", Cut::kDeepseekV3, kDeepseekV3Words},
    {"llama-bpe", Cut::kExpression, kLlama3, false, /*ignore_merges=*/true},
    {"llama-v3", Cut::kExpression, kLlama3, false, /*ignore_merges=*/true},
    {"llama3", Cut::kExpression, kLlama3, false, /*ignore_merges=*/true},
    {"llama4", Cut::kExpression, kGpt4o},
    {"megrez", Cut::kExpression, kQwen2, /*composes=*/true},
    {"minimax-m2", Cut::kExpression, kGpt4o},
    {"mpt", Cut::kWords, nullptr, /*composes=*/true},
    {"olmo", Cut::kWords, nullptr, /*composes=*/true},
    {"phi-2", Cut::kWords},
    {"pixtral", Cut::kExpression, kLlama3, false, /*ignore_merges=*/true},
    {"qwen2", Cut::kExpression, kQwen2, /*composes=*/true},
    {"qwen35", Cut::kExpression, kQwen35, /*composes=*/true},
    {"refact", Cut::kDigitsAndWords},
    {"seed-coder", Cut::kExpression, kSeedCoder},
    {"smaug-bpe", Cut::kExpression, kLlama3},
    {"smollm", Cut::kDigitsAndWords},
    {"stablelm2", Cut::kExpression, kQwen2, /*composes=*/true},
    {"starcoder", Cut::kDigitsAndWords},
    {"tekken", Cut::kExpression, kTekken, false, /*ignore_merges=*/true},
};

json bytes(bool cuts_words) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", cuts_words}};
}

json digits(bool alone) { return {{"type", "Digits"}, {"individual_digits", alone}}; }

json split(const char* expression) {
  return {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json sequence(std::vector<json> stages) { return {{"type", "Sequence"}, {"pretokenizers", json(std::move(stages))}}; }

json stages_of(const NamedCut& named) {
  switch (named.cut) {
    case Cut::kWords: return bytes(/*cuts_words=*/true);
    case Cut::kDigitsAndWords: return sequence({digits(/*alone=*/true), bytes(/*cuts_words=*/true)});
    case Cut::kFalcon:
      return sequence({{{"type", "Punctuation"}, {"behavior", "Contiguous"}},
                       bytes(/*cuts_words=*/true),
                       digits(/*alone=*/false),
                       split("[0-9][0-9][0-9]")});
    case Cut::kExpression: return sequence({split(named.expression), bytes(/*cuts_words=*/false)});
    case Cut::kDeepseekCoder:
      return sequence({split("[\r\n]"), split(R"(\s?\p{L}+)"), split(R"(\s?\p{P}+)"), split("[一-龥ࠀ-一가-퟿]+"),
                       digits(/*alone=*/true), bytes(/*cuts_words=*/false)});
    case Cut::kDeepseekV3:
      return sequence({split(R"(\p{N}{1,3})"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(named.expression),
                       bytes(/*cuts_words=*/false)});
  }
  return json();
}

}  // namespace

std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) {
  const auto* const named = std::ranges::find(kCuts, name, &NamedCut::name);
  if (named == std::end(kCuts)) return std::nullopt;
  return PreTokenizer{.normalizer = named->composes ? json{{"type", "NFC"}} : json(),
                      .pre_tokenizer = stages_of(*named),
                      .ignore_merges = named->ignore_merges};
}

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const NamedCut& named : kCuts) names.push_back(named.name);
  return names;
}

}  // namespace lockstep::gguf
