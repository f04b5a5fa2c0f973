// How sequences draw and end, as Hugging Face's GenerationConfig has it.
//
//   defaults ◄── generation_config.json ◄── set(name, value): flags, an API call ──► validate ──► sampling(row)
//
// Each stage replaces only what it names. Options that are known but not served yet are refused when their value would
// change the answer; a neutral value ("num_beams": 1) passes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/sampling/sampling.h"

namespace lockstep::generation {

/// Names and defaults are Hugging Face's, but for the length: without `max_new_tokens` a sequence runs until EOS or
/// until its slot is full (Hugging Face stops at 20 tokens in all).
struct GenerationConfig {
  bool do_sample = false;
  double temperature = 1.0;
  int32_t top_k = 50;  // counts when sampling only; 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  uint64_t seed = 0;  // of the job; rows derive theirs from it

  std::optional<int32_t> max_new_tokens;
  std::optional<int32_t> max_length;   // prompt included; the caller decides whether it counts
  std::vector<int32_t> eos_token_ids;  // `eos_token_id` of files; empty: only the length ends a sequence
  std::optional<int32_t> pad_token_id;
  std::optional<int32_t> bos_token_id;
  std::vector<std::string> stop_strings;
  std::optional<double> max_time;  // seconds

  /// Replaces the option that Hugging Face calls `name` by `json` ("0.7", "true", "[1, 2]"; "null" keeps it). Fails
  /// with `kInvalidArgument` (no such option, a value of the wrong type) or `kUnsupported` (an option that is not
  /// served yet).
  Result<void> set(std::string_view name, std::string_view json);

  /// Fails with `kInvalidArgument` naming the option, the value and what is allowed.
  Result<void> validate() const;

  /// How row `row` of the job draws: with its own seed; greedy rows carry no temperature, top-k, top-p or min-p.
  sampling::Parameters sampling(uint64_t row) const;

  friend bool operator==(const GenerationConfig&, const GenerationConfig&) = default;
};

/// What a file said.
struct LoadedConfig {
  GenerationConfig config;
  std::vector<std::string> ignored;  // keys that mean nothing to us, sorted
};

/// Reads the text of a generation_config.json; `origin` names it in messages. Fails with `kInvalidArgument` (not JSON,
/// a value of the wrong type) or `kUnsupported` (options that are not served yet and would change the answer, all
/// named).
Result<LoadedConfig> parse_generation_config(std::string_view json, std::string_view origin);

/// Reads `directory`/generation_config.json; the defaults when there is none (then the ids of config.json count, which
/// the caller adds). Fails as above, and with `kNotFound` when the file cannot be read.
Result<LoadedConfig> read_generation_config(const std::filesystem::path& directory);

}  // namespace lockstep::generation
