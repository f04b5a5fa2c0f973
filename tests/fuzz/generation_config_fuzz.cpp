// Fuzzes generation_config.json: it is refused with a message, or a row of it grows by valid tokens until it ends. As a
// config.json it has the same options, and those of its text_config.
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "runtime/core/check.h"
#include "runtime/core/clock.h"
#include "runtime/core/json_depth.h"
#include "runtime/generation/choosers.h"

using namespace lockstep;
using namespace lockstep::generation;

namespace {

constexpr int64_t kVocabulary = 12;
constexpr int64_t kLongest = 8;

/// A seed alone has 64 bits without a sign.
void check_wide_numbers(std::string_view text) {
  const auto file = nlohmann::json::parse(text);
  for (const auto& [key, value] : file.items()) {
    const bool is_wide = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
    if (key != "seed" && is_wide) LOCKSTEP_CHECK(!GenerationConfig().set(key, value.dump()).has_value(), key);
  }
}

void check_model_options(std::string_view text, const Result<LoadedConfig>& loaded) {
  const auto of_model = parse_model_options(text, "fuzz.json");
  if (!of_model.has_value()) LOCKSTEP_CHECK(!of_model.error().message.empty());
  const auto file = parse_shallow<nlohmann::json>(text);
  if (file.is_object() && file.contains("text_config")) return;
  LOCKSTEP_CHECK(of_model.has_value() == loaded.has_value());
  if (loaded.has_value()) LOCKSTEP_CHECK(of_model.value().config == loaded.value().config);
}

std::vector<float> logits_of(size_t rows, size_t step) {
  std::vector<float> logits(rows * kVocabulary);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 7 + step * 5) % 13) - 6.0f;
  return logits;
}

void grow(const GenerationConfig& config) {
  static const ManualClock clock;
  auto chooser = make_chooser({.config = config,
                               .prompt = {3, 1},
                               .negative_prompt = {},
                               .vocabulary = kVocabulary,
                               .max_length = kLongest,
                               .clock = &clock,
                               .processors = {},
                               .criteria = {}});
  if (!chooser.has_value()) {
    LOCKSTEP_CHECK(!chooser.error().message.empty());
    return;
  }
  const auto rows = static_cast<size_t>(chooser.value()->rows());
  for (size_t step = 0;; ++step) {
    LOCKSTEP_CHECK(step <= kLongest, step);
    const Choice choice = chooser.value()->choose(logits_of(rows, step));
    if (choice.error || choice.finished) break;
    LOCKSTEP_CHECK(choice.tokens.size() == rows && choice.sources.size() == rows, choice.tokens.size(), rows);
    for (const int32_t token : choice.tokens) LOCKSTEP_CHECK(token >= 0 && token < kVocabulary, token);
    for (const int32_t source : choice.sources)
      LOCKSTEP_CHECK(source >= 0 && source < std::ssize(choice.tokens), source);
  }
  for (const Sequence& sequence : chooser.value()->sequences()) {
    LOCKSTEP_CHECK(std::ssize(sequence.ids) <= kLongest, sequence.ids.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto loaded = parse_generation_config(text, "fuzz.json");
  check_model_options(text, loaded);
  if (!loaded.has_value()) {
    LOCKSTEP_CHECK(!loaded.error().message.empty());
    return 0;
  }
  check_wide_numbers(text);
  const GenerationConfig& config = loaded.value().config;
  if (const auto valid = config.validate(); !valid.has_value()) {
    LOCKSTEP_CHECK(valid.error().message.starts_with("[runtime/generation] "), valid.error().message);
    return 0;
  }
  static_cast<void>(config.sampling(/*row=*/1));
  LOCKSTEP_CHECK(config.least_new_tokens(2) >= 0, config.least_new_tokens(2));
  if (config.num_beams <= 4 && config.num_return_sequences <= 4) grow(config);
  return 0;
}
