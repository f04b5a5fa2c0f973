// How sequences draw and end, as Hugging Face's GenerationConfig has it.
//
//   defaults ◄── generation_config.json ◄── set(name, value): flags, an API call ──► validate ──► sampling(row)
//
// Each stage replaces only what it names. Options that are known but not served are refused when their value would
// change the answer; a neutral value ("num_beam_groups": 1) passes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/field_list.h"
#include "runtime/core/result.h"
#include "runtime/sampling/sampling.h"

namespace lockstep::generation {

/// When beam search ends.
enum class EarlyStopping {
  kNo,     // `false`: when the running beams are unlikely to become better than the finished ones
  kYes,    // `true`: as soon as there are enough finished beams
  kNever,  // "never": when no running beam can become better
};

/// Adds `bias` to the score of the last id after the other ids.
struct BiasedSequence {
  std::vector<int32_t> ids;  // at least one
  double bias = 0.0;

  friend bool operator==(const BiasedSequence&, const BiasedSequence&) = default;
};
LOCKSTEP_FIELDS(BiasedSequence, ids, bias);

/// End tokens become likelier by a power of `factor`, from the `start`-th new token on.
struct LengthDecay {
  int32_t start = 0;
  double factor = 1.0;

  friend bool operator==(const LengthDecay&, const LengthDecay&) = default;
};
LOCKSTEP_FIELDS(LengthDecay, start, factor);

/// Which ids choose the green list: "lefthash" the last one, "selfhash" the context with the new one.
enum class WatermarkScheme { kLeftHash, kSelfHash };

struct Watermark {
  double green_share = 0.25;  // "greenlist_ratio"
  double bias = 2.0;
  int64_t hashing_key = 15485863;
  WatermarkScheme scheme = WatermarkScheme::kLeftHash;  // "seeding_scheme"
  int32_t context = 1;                                  // "context_width"

  friend bool operator==(const Watermark&, const Watermark&) = default;
};
LOCKSTEP_FIELDS(Watermark, green_share, bias, hashing_key, scheme, context);

/// Names and defaults are Hugging Face's, except the length: without `max_new_tokens` a sequence runs until EOS or
/// until its slot is full (Hugging Face stops at 20 tokens in all).
struct GenerationConfig {
  // How one token is drawn.
  bool do_sample = false;
  double temperature = 1.0;
  int32_t top_k = 50;  // this and the next count when sampling only; 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  std::optional<double> top_h;
  double typical_p = 1.0;
  double epsilon_cutoff = 0.0;
  double eta_cutoff = 0.0;
  uint64_t seed = 0;  // of the job; rows derive theirs from it

  // What changes the scores before.
  double guidance_scale = 1.0;
  std::vector<BiasedSequence> sequence_bias;
  double encoder_repetition_penalty = 1.0;
  double repetition_penalty = 1.0;
  int32_t no_repeat_ngram_size = 0;          // 0: off
  int32_t encoder_no_repeat_ngram_size = 0;  // 0: off
  std::vector<std::vector<int32_t>> bad_words_ids;
  std::optional<int32_t> forced_bos_token_id;
  std::vector<int32_t> forced_eos_token_ids;  // `forced_eos_token_id` of files
  bool remove_invalid_values = false;
  std::optional<LengthDecay> exponential_decay_length_penalty;
  std::vector<int32_t> suppress_tokens;
  std::vector<int32_t> begin_suppress_tokens;
  std::optional<Watermark> watermarking_config;
  bool renormalize_logits = false;

  // When a sequence ends.
  std::optional<int32_t> max_new_tokens;
  std::optional<int32_t> max_length;  // prompt included; the caller decides whether it counts
  int32_t min_new_tokens = 0;
  int32_t min_length = 0;              // prompt included
  std::vector<int32_t> eos_token_ids;  // `eos_token_id` of files; empty: only the length ends a sequence
  std::optional<int32_t> pad_token_id;
  std::optional<int32_t> bos_token_id;
  std::vector<std::string> stop_strings;
  std::optional<double> max_time;  // seconds

  // Several sequences of one prompt.
  int32_t num_beams = 1;
  int32_t num_return_sequences = 1;
  double length_penalty = 1.0;  // a beam's score is divided by its length to this power
  EarlyStopping early_stopping = EarlyStopping::kNo;

  // Speculation.
  int32_t num_assistant_tokens = 20;
  std::optional<int32_t> prompt_lookup_num_tokens;
  int32_t max_matching_ngram_size = 2;

  // What an answer tells of its tokens.
  bool output_scores = false;
  bool output_logits = false;
  int32_t top_logprobs = 0;  // log-probabilities of this many likeliest tokens; ours

  /// Replaces the option that Hugging Face calls `name` by `json` ("0.7", "true", "[1, 2]"; "null" keeps it). Fails
  /// with `kInvalidArgument` (no such option, a value of the wrong type) or `kUnsupported` (an option that is not
  /// served).
  Result<void> set(std::string_view name, std::string_view json);

  /// Fails with `kInvalidArgument` naming the option, the value and what is allowed; options that contradict each other
  /// are named together.
  Result<void> validate() const;

  /// `validate`, and that tokens can be shown as they are made: with beams they are known at the end only.
  Result<void> validate_streaming() const;

  /// How row `row` of the job draws: with its own seed; greedy rows carry no temperature, top-k, top-p and the like.
  sampling::Parameters sampling(uint64_t row) const;

  /// The new tokens before which a row with a prompt of `prompt_length` may not end.
  int32_t least_new_tokens(int64_t prompt_length) const;

  friend bool operator==(const GenerationConfig&, const GenerationConfig&) = default;
};
LOCKSTEP_FIELDS(GenerationConfig, do_sample, temperature, top_k, top_p, min_p, top_h, typical_p, epsilon_cutoff,
                eta_cutoff, seed, guidance_scale, sequence_bias, encoder_repetition_penalty, repetition_penalty,
                no_repeat_ngram_size, encoder_no_repeat_ngram_size, bad_words_ids, forced_bos_token_id,
                forced_eos_token_ids, remove_invalid_values, exponential_decay_length_penalty, suppress_tokens,
                begin_suppress_tokens, watermarking_config, renormalize_logits, max_new_tokens, max_length,
                min_new_tokens, min_length, eos_token_ids, pad_token_id, bos_token_id, stop_strings, max_time,
                num_beams, num_return_sequences, length_penalty, early_stopping, num_assistant_tokens,
                prompt_lookup_num_tokens, max_matching_ngram_size, output_scores, output_logits, top_logprobs);

/// What a file said.
struct LoadedConfig {
  GenerationConfig config;
  std::vector<std::string> ignored;  // keys that mean nothing to us, sorted
};

/// Reads the text of a generation_config.json; `origin` names it in messages. Fails with `kInvalidArgument` (not JSON,
/// a value of the wrong type) or `kUnsupported` (options that are not served and would change the answer, all named).
Result<LoadedConfig> parse_generation_config(std::string_view json, std::string_view origin);

/// Reads `directory`/generation_config.json; the defaults when there is none (then the ids of config.json count, which
/// the caller adds). Fails as above, and with `kNotFound` when the file cannot be read.
Result<LoadedConfig> read_generation_config(const std::filesystem::path& directory);

}  // namespace lockstep::generation
