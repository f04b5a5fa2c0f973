// The processors for a configuration, in Hugging Face's order.
//
//   guidance (a chooser's) ─ sequence_bias ─ encoder_repetition_penalty ─ repetition_penalty ─ presence_penalty and
//   frequency_penalty (OpenAI's) ─ no_repeat_ngram_size ─ encoder_no_repeat_ngram_size ─ bad_words_ids ─
//   min_new_tokens or min_length ─ prefix_allowed_tokens ─ forced_bos ─ forced_eos ─ remove_invalid_values ─
//   exponential_decay_length_penalty ─ suppress ─ begin_suppress ─ users' ─ when sampling: temperature ─ top_h ─ top_k
//   ─ top_p ─ min_p ─ typical_p ─ epsilon ─ eta ─ watermark ─ renormalize_logits
#pragma once

#include "runtime/core/result.h"
#include "runtime/generation/constraint_processors.h"
#include "runtime/generation/generation_config.h"
#include "runtime/generation/logits_processor.h"

namespace lockstep::generation {

/// The request's part that processors need. Borrows the prompt.
struct RequestContext {
  std::span<const int32_t> prompt;
  int64_t max_length = 0;  // of a row, including the prompt
  int64_t vocabulary = 0;
  int64_t request = 0;  // the caller's number of the request; passed to `AllowedTokens`
};

/// Processors added by users' code.
struct UserProcessors {
  std::vector<std::shared_ptr<const LogitsProcessor>> processors;
  AllowedTokens allowed_tokens;  // may be empty
};

/// Fails with `kInvalidArgument` when an option needs something missing: an id of the vocabulary, an end token.
Result<ProcessorChain> make_processors(const GenerationConfig& config, const RequestContext& context,
                                       const UserProcessors& users = {});

}  // namespace lockstep::generation
