#include "runtime/generation/make_processors.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/generation/draw_processors.h"
#include "runtime/generation/repetition_processors.h"
#include "runtime/generation/watermark_processor.h"

namespace lockstep::generation {
namespace {

Result<void> check_ids(std::string_view option, std::span<const int32_t> ids, int64_t vocabulary) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/generation] {}: found id {}, expected 0 to {} (the model's vocabulary)", option,
                             id, vocabulary - 1)};
  }
  return ok();
}

Result<void> check(const GenerationConfig& config, int64_t vocabulary) {
  for (const BiasedSequence& biased : config.sequence_bias) {
    LOCKSTEP_TRY_VOID(check_ids("sequence_bias", biased.ids, vocabulary));
  }
  for (const std::vector<int32_t>& word : config.bad_words_ids) {
    LOCKSTEP_TRY_VOID(check_ids("bad_words_ids", word, vocabulary));
  }
  if (config.forced_bos_token_id) {
    LOCKSTEP_TRY_VOID(check_ids("forced_bos_token_id", {&*config.forced_bos_token_id, 1}, vocabulary));
  }
  LOCKSTEP_TRY_VOID(check_ids("forced_eos_token_id", config.forced_eos_token_ids, vocabulary));
  if (config.exponential_decay_length_penalty && config.eos_token_ids.empty()) {
    return Error{ErrorKind::kInvalidArgument,
                 "[runtime/generation] exponential_decay_length_penalty: found no eos_token_id, expected at least one; "
                 "set eos_token_id"};
  }
  return ok();
}

/// Builds one chain.
class Builder {
 public:
  Builder(const GenerationConfig& config, const RequestContext& context, const UserProcessors& users)
      : config_(config), context_(context), users_(users) {}

  ProcessorChain build() {
    add_repetition();
    add_constraints();
    chain_.merge(users_.processors);
    if (config_.do_sample) add_draw();
    add_if<WatermarkBias>(config_.watermarking_config.has_value(), config_.watermarking_config.value_or(Watermark{}));
    add_if<Renormalize>(config_.renormalize_logits);
    return std::move(chain_);
  }

 private:
  template <typename Processor, typename... Arguments>
  void add_if(bool is_wanted, const Arguments&... arguments) {
    if (is_wanted) chain_.add(std::make_shared<Processor>(arguments...));
  }

  void add_repetition() {
    const auto& config = config_;
    add_if<SequenceBias>(!config.sequence_bias.empty(), config.sequence_bias);
    add_if<PromptPenalty>(config.encoder_repetition_penalty != 1.0, config.encoder_repetition_penalty, context_.prompt);
    add_if<RepetitionPenalty>(config.repetition_penalty != 1.0, config.repetition_penalty);
    add_if<AnswerPenalty>(config.presence_penalty != 0.0 || config.frequency_penalty != 0.0, config.presence_penalty,
                          config.frequency_penalty, context_.prompt.size());
    add_if<NoRepeatNgram>(config.no_repeat_ngram_size > 0, static_cast<size_t>(config.no_repeat_ngram_size));
    add_if<NoPromptNgram>(config.encoder_no_repeat_ngram_size > 0,
                          static_cast<size_t>(config.encoder_no_repeat_ngram_size), context_.prompt);
    add_if<BadWords>(!config.bad_words_ids.empty(), config.bad_words_ids, config.eos_token_ids);
  }

  void add_constraints() {
    const auto& config = config_;
    const int64_t prompt_length = std::ssize(context_.prompt);
    const int64_t least = config.least_new_tokens(prompt_length);
    add_if<MinLength>(!config.eos_token_ids.empty() && least > 0, prompt_length + least, config.eos_token_ids);
    add_if<PrefixAllowed>(static_cast<bool>(users_.allowed_tokens), users_.allowed_tokens, context_.request);
    add_if<ForcedFirst>(config.forced_bos_token_id.has_value(), config.forced_bos_token_id.value_or(0));
    add_if<ForcedLast>(!config.forced_eos_token_ids.empty(), context_.max_length, config.forced_eos_token_ids);
    add_if<RemoveInvalid>(config.remove_invalid_values);
    add_if<LengthDecayPenalty>(config.exponential_decay_length_penalty.has_value(),
                               config.exponential_decay_length_penalty.value_or(LengthDecay{}), prompt_length,
                               config.eos_token_ids);
    add_if<Suppress>(!config.suppress_tokens.empty(), config.suppress_tokens);
    // A forced first token moves the start of the output by one.
    const bool is_moved = prompt_length <= 1 && config.forced_bos_token_id.has_value();
    add_if<SuppressAtBegin>(!config.begin_suppress_tokens.empty(), config.begin_suppress_tokens,
                            prompt_length + (is_moved ? 1 : 0));
  }

  void add_draw() {
    const auto& config = config_;
    const auto scratch = std::make_shared<sampling::Scratch>(context_.vocabulary);
    const bool has_beams = config.num_beams > 1;
    const int32_t keep = !has_beams                     ? 1
                         : config.eos_token_ids.empty() ? 2
                                                        : static_cast<int32_t>(config.eos_token_ids.size()) + 1;
    add_if<Temperature>(true, config.temperature, scratch);  // 1 changes only infinite scores
    add_if<TopH>(config.top_h.has_value(), config.top_h.value_or(1.0));
    add_if<TopK>(config.top_k > 0, config.top_k, keep, scratch);
    add_if<TopP>(config.top_p < 1.0, config.top_p, keep, scratch);
    add_if<MinP>(config.min_p > 0.0, config.min_p, keep, scratch);
    add_if<TypicalP>(config.typical_p < 1.0, config.typical_p, keep, scratch);
    add_if<EpsilonCutoff>(config.epsilon_cutoff > 0.0, config.epsilon_cutoff, keep, scratch);
    add_if<EtaCutoff>(config.eta_cutoff > 0.0, config.eta_cutoff, keep, scratch);
  }

  const GenerationConfig& config_;
  const RequestContext& context_;
  const UserProcessors& users_;
  ProcessorChain chain_;
};

}  // namespace

Result<ProcessorChain> make_processors(const GenerationConfig& config, const RequestContext& context,
                                       const UserProcessors& users) {
  LOCKSTEP_TRY_VOID(check(config, context.vocabulary));
  return Builder(config, context, users).build();
}

}  // namespace lockstep::generation
