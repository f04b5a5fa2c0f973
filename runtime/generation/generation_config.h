// Sampling and stopping options of sequences, equivalent to Hugging Face's GenerationConfig.
//
//   defaults ◄── generation_config.json ◄── set(name, value): flags, an API call ──► validate ──► sampling(row)
//
// Each stage replaces only the options that it names. A known but unsupported option is rejected if its value would
// change the answer; a neutral value ("num_beam_groups": 1) is accepted.
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
  kNo,     // `false`: when running beams are unlikely to beat the finished ones
  kYes,    // `true`: as soon as enough beams are finished
  kNever,  // "never": when no running beam can beat the finished ones
};

/// Adds `bias` to the score of the last id if the other ids precede it.
struct BiasedSequence {
  std::vector<int32_t> ids;  // at least one
  double bias = 0.0;

  friend bool operator==(const BiasedSequence&, const BiasedSequence&) = default;
};
LOCKSTEP_FIELDS(BiasedSequence, ids, bias);

/// Makes end tokens likelier by a power of `factor`, starting with the `start`-th new token.
struct LengthDecay {
  int32_t start = 0;
  double factor = 1.0;

  friend bool operator==(const LengthDecay&, const LengthDecay&) = default;
};
LOCKSTEP_FIELDS(LengthDecay, start, factor);

/// The ids that determine the green list: "lefthash" the last one, "selfhash" the context including the new one.
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
/// until its slot is full (Hugging Face stops at 20 tokens in total).
struct GenerationConfig {
  // Drawing a token.
  bool do_sample = false;
  double temperature = 1.0;
  int32_t top_k = 50;  // like the next options, used only for sampling; 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  std::optional<double> top_h;
  double typical_p = 1.0;
  double epsilon_cutoff = 0.0;
  double eta_cutoff = 0.0;
  uint64_t seed = 0;  // of the job; rows derive theirs from it

  // Changes of the scores before drawing.
  double guidance_scale = 1.0;
  std::vector<BiasedSequence> sequence_bias;
  double encoder_repetition_penalty = 1.0;
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;             // OpenAI's, over the new tokens; 0: none
  double frequency_penalty = 0.0;            // the same, times the token's number
  int32_t no_repeat_ngram_size = 0;          // 0: off
  int32_t encoder_no_repeat_ngram_size = 0;  // 0: off
  std::vector<std::vector<int32_t>> bad_words_ids;
  std::optional<int32_t> forced_bos_token_id;
  std::vector<int32_t> forced_eos_token_ids;  // `forced_eos_token_id` in files
  bool remove_invalid_values = false;
  std::optional<LengthDecay> exponential_decay_length_penalty;
  std::vector<int32_t> suppress_tokens;
  std::vector<int32_t> begin_suppress_tokens;
  std::optional<Watermark> watermarking_config;
  bool renormalize_logits = false;

  // The end of a sequence.
  std::optional<int32_t> max_new_tokens;
  std::optional<int32_t> max_length;      // including the prompt; the caller decides whether it applies
  std::optional<int32_t> min_new_tokens;  // replaces min_length, also as 0
  int32_t min_length = 0;                 // including the prompt
  std::vector<int32_t> eos_token_ids;     // `eos_token_id` in files; empty: only the length ends a sequence
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

  // Records of tokens in an answer.
  bool output_scores = false;
  bool output_logits = false;
  int32_t top_logprobs = 0;  // log-probabilities of this many likeliest tokens; not Hugging Face's

  /// Sets the option with Hugging Face's name `name` to `json` ("0.7", "true", "[1, 2]"; "null" keeps the old value).
  /// Fails with `kInvalidArgument` (unknown option, value of the wrong type) or `kUnsupported` (unsupported option).
  Result<void> set(std::string_view name, std::string_view json);

  /// Fails with `kInvalidArgument` naming the option, the value and the allowed values; for contradicting options,
  /// names both.
  Result<void> validate() const;

  /// Calls `validate`, and checks that tokens can be streamed: with beams they are known only at the end.
  Result<void> validate_streaming() const;

  /// The sampling parameters of row `row` of the job, with its own seed; greedy rows have neutral temperature, top-k
  /// and so on.
  sampling::Parameters sampling(uint64_t row) const;

  /// The minimum number of new tokens of a row with a prompt of `prompt_length`.
  int32_t least_new_tokens(int64_t prompt_length) const;

  friend bool operator==(const GenerationConfig&, const GenerationConfig&) = default;
};
LOCKSTEP_FIELDS(GenerationConfig, do_sample, temperature, top_k, top_p, min_p, top_h, typical_p, epsilon_cutoff,
                eta_cutoff, seed, guidance_scale, sequence_bias, encoder_repetition_penalty, repetition_penalty,
                presence_penalty, frequency_penalty, no_repeat_ngram_size, encoder_no_repeat_ngram_size, bad_words_ids,
                forced_bos_token_id, forced_eos_token_ids, remove_invalid_values, exponential_decay_length_penalty,
                suppress_tokens, begin_suppress_tokens, watermarking_config, renormalize_logits, max_new_tokens,
                max_length, min_new_tokens, min_length, eos_token_ids, pad_token_id, bos_token_id, stop_strings,
                max_time, num_beams, num_return_sequences, length_penalty, early_stopping, num_assistant_tokens,
                prompt_lookup_num_tokens, max_matching_ngram_size, output_scores, output_logits, top_logprobs);

/// The contents of a file.
struct LoadedConfig {
  GenerationConfig config;
  std::vector<std::string> present;  // keys of options that have a value, sorted
  std::vector<std::string> ignored;  // keys without meaning here, sorted
};

/// Parses a generation_config.json; `origin` names it in messages. Fails with `kInvalidArgument` (not JSON, a value of
/// the wrong type) or `kUnsupported` (naming all unsupported options that would change the answer).
Result<LoadedConfig> parse_generation_config(std::string_view json, std::string_view origin);

/// The options in a model's config.json, at its top or else in its text_config; its other keys are not `ignored`, they
/// describe the model. Null stands for absent. As `GenerationConfig.from_model_config` of transformers. Fails as above.
Result<LoadedConfig> parse_model_options(std::string_view config_json, std::string_view origin);

/// Reads `directory`/generation_config.json or, if it does not exist, the options of config.json; `directory` may be a
/// GGUF file. Returns the defaults if neither exists. Fails as above, and with `kNotFound` when the file cannot be
/// read.
Result<LoadedConfig> read_generation_config(const std::filesystem::path& directory);

/// `parse_model_options` of a file; the defaults if it cannot be read.
Result<LoadedConfig> read_model_options(const std::filesystem::path& config_json);

}  // namespace lockstep::generation
