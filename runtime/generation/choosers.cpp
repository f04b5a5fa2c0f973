#include "runtime/generation/choosers.h"

#include "runtime/core/check.h"
#include "runtime/generation/beam_chooser.h"
#include "runtime/generation/log_softmax.h"
#include "runtime/sampling/candidates.h"

namespace lockstep::generation {

Result<std::unique_ptr<TokenChooser>> make_chooser(ChooserRequest request) {
  LOCKSTEP_CHECK(!prefilled_of(request).empty() && std::ssize(request.prompt) < request.max_length,
                 request.prompt.size(), request.max_length);
  if (request.config.num_beams > 1 && request.constraint) {
    return Error{ErrorKind::kUnsupported,
                 "[runtime/generation] num_beams: found beams beside a constraint, expected one of them; omit one"};
  }
  if (request.config.num_beams > 1) return BeamChooser::make(request);
  if (request.config.guidance_scale != 1.0) return GuidedChooser::make(request);
  return SampledChooser::make(request);
}

// ---- a row --------------------------------------------------------------------------------------------------------

Result<GrowingRow> GrowingRow::make(const ChooserRequest& request) {
  LOCKSTEP_TRY(ProcessorChain processors, make_processors(request.config, context_of(request), request.processors));
  std::unique_ptr<constraint::Matcher> matcher;
  if (request.constraint) {
    LOCKSTEP_TRY(matcher, request.constraint->begin(request.config.eos_token_ids));
  }
  return GrowingRow(request, std::move(processors), std::move(matcher));
}

GrowingRow::GrowingRow(const ChooserRequest& request, ProcessorChain processors,
                       std::unique_ptr<constraint::Matcher> matcher)
    : draw_(request.config.sampling(request.row)),
      record_(record_options(request.config, request.model_top)),
      processors_(std::move(processors)),
      matcher_(std::move(matcher)),
      stopping_(stopping_of(request)),
      prompt_length_(request.prompt.size()),
      ids_(request.prompt),
      scratch_(std::make_shared<sampling::Scratch>(request.vocabulary)) {}

Result<int32_t> GrowingRow::grow(std::span<const float> logits, std::span<float> scores) {
  LOCKSTEP_CHECK(!is_finished(), ids_.size());
  if (matcher_) LOCKSTEP_TRY_VOID(matcher_->mask(scores));  // top_k, top_p … count among the allowed tokens
  processors_.process(ids_, scores);
  if (matcher_) LOCKSTEP_TRY_VOID(matcher_->mask(scores));  // some processors give excluded tokens a score
  const int32_t token = pick(logits, scores);
  if (matcher_) LOCKSTEP_TRY_VOID(matcher_->accept(token));
  if (auto record = record_token(record_, logits, scores, token)) records_.push_back(std::move(record));
  ids_.push_back(token);
  reason_ = stopping_.check(ids_, scores);
  return token;
}

int32_t GrowingRow::pick(std::span<const float> logits, std::span<float> scores) const {
  if (!draw_.do_sample && !record_.wants_any()) {  // one pass; records need scores without NaN
    const int32_t best = sampling::highest_id(scores);
    return scores[static_cast<size_t>(best)] > sampling::kExcluded ? best : sampling::first_number(logits);
  }
  sampling::Candidates candidates(scores, *scratch_);
  const auto index = static_cast<uint32_t>(ids_.size() - prompt_length_);
  return candidates.is_empty() ? sampling::first_number(logits)
         : draw_.do_sample     ? candidates.draw(sampling::uniform(draw_.seed, index))
                               : candidates.greedy();
}

Result<void> GrowingRow::follow(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    if (matcher_) LOCKSTEP_TRY_VOID(matcher_->accept(token));
    ids_.push_back(token);
  }
  return ok();
}

Sequence GrowingRow::sequence() const {
  return {.ids = {ids_.begin() + static_cast<ptrdiff_t>(prompt_length_), ids_.end()},
          .score = 0.0,
          .reason = reason_.value_or(FinishReason::kCancelled),
          .records = records_};
}

RequestContext context_of(const ChooserRequest& request) {
  return {.prompt = request.prompt,
          .max_length = request.max_length,
          .vocabulary = request.vocabulary,
          .request = static_cast<int64_t>(request.row)};
}

StoppingCriteria stopping_of(const ChooserRequest& request) {
  return make_stopping(request.config, {.max_length = request.max_length,
                                        .clock = request.clock,
                                        .tokenizer = request.tokenizer,
                                        .users = request.criteria});
}

// ---- one row ------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<TokenChooser>> SampledChooser::make(const ChooserRequest& request) {
  LOCKSTEP_TRY(GrowingRow row, GrowingRow::make(request));
  return std::unique_ptr<TokenChooser>(new SampledChooser(prefilled_of(request), std::move(row)));
}

std::vector<std::vector<int32_t>> SampledChooser::prompts() const {
  row_.begin();
  return {prompt_};
}

Result<void> SampledChooser::follow(std::span<const int32_t> tokens) {
  LOCKSTEP_TRY_VOID(row_.follow(tokens));
  prompt_.insert(prompt_.end(), tokens.begin(), tokens.end());
  return ok();
}

Choice SampledChooser::choose(std::span<const float> logits) {
  scores_.assign(logits.begin(), logits.end());
  const Result<int32_t> token = row_.grow(logits, scores_);
  if (!token.has_value()) return {.error = token.error()};
  return {.tokens = {token.value()}, .sources = {0}, .finished = row_.is_finished()};
}

// ---- guidance -----------------------------------------------------------------------------------------------------

Result<std::unique_ptr<TokenChooser>> GuidedChooser::make(const ChooserRequest& request) {
  LOCKSTEP_TRY(GrowingRow row, GrowingRow::make(request));
  return std::unique_ptr<TokenChooser>(new GuidedChooser(request, std::move(row)));
}

GuidedChooser::GuidedChooser(const ChooserRequest& request, GrowingRow row)
    : prompt_(request.prompt),
      negative_prompt_(request.negative_prompt.empty() ? std::vector<int32_t>{request.prompt.back()}
                                                       : request.negative_prompt),
      scale_(static_cast<float>(request.config.guidance_scale)),
      row_(std::move(row)) {}

std::vector<std::vector<int32_t>> GuidedChooser::prompts() const {
  row_.begin();
  return {prompt_, negative_prompt_};
}

Result<void> GuidedChooser::follow(std::span<const int32_t> tokens) {
  LOCKSTEP_TRY_VOID(row_.follow(tokens));
  for (std::vector<int32_t>* prompt : {&prompt_, &negative_prompt_}) {
    prompt->insert(prompt->end(), tokens.begin(), tokens.end());
  }
  return ok();
}

Choice GuidedChooser::choose(std::span<const float> logits) {
  scores_.assign(logits.begin(), logits.end());
  const size_t vocabulary = scores_.size() / 2;
  const std::span<float> scores = std::span(scores_).first(vocabulary);
  const std::span<float> unconditional = std::span(scores_).last(vocabulary);
  log_softmax(scores);
  log_softmax(unconditional);
  for (size_t i = 0; i < vocabulary; ++i) scores[i] = scale_ * (scores[i] - unconditional[i]) + unconditional[i];
  const Result<int32_t> token = row_.grow(logits.first(vocabulary), scores);
  if (!token.has_value()) return {.error = token.error()};
  return {.tokens = {token.value(), token.value()}, .sources = {0, 1}, .finished = row_.is_finished()};
}

}  // namespace lockstep::generation
