#include "runtime/generation/beam_chooser.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/core/check.h"
#include "runtime/generation/log_softmax.h"
#include "runtime/sampling/candidates.h"

namespace lockstep::generation {
namespace {

constexpr float kOut = -1.0e9f;  // added to a score to exclude it

}  // namespace

Result<std::unique_ptr<TokenChooser>> BeamChooser::make(const ChooserRequest& request) {
  LOCKSTEP_TRY(ProcessorChain processors, make_processors(request.config, context_of(request), request.processors));
  return std::unique_ptr<TokenChooser>(new BeamChooser(request, std::move(processors)));
}

/// At first only beam 0 counts, because all beams are equal.
BeamChooser::BeamChooser(const ChooserRequest& request, ProcessorChain processors)
    : prompt_(request.prompt),
      prefilled_(prefilled_of(request)),
      vocabulary_(request.vocabulary),
      beams_(request.config.num_beams),
      returned_(static_cast<size_t>(request.config.num_return_sequences)),
      continuations_(std::max<size_t>(2, 1 + request.config.eos_token_ids.size()) * static_cast<size_t>(beams_)),
      max_length_(request.max_length),
      length_penalty_(request.config.length_penalty),
      early_stopping_(request.config.early_stopping),
      draw_(request.config.sampling(request.row)),
      record_(record_options(request.config, request.model_top)),
      processors_(std::move(processors)),
      stopping_(stopping_of(request)),
      running_(static_cast<size_t>(beams_), Beam{.ids = prompt_, .records = {}, .score = kOut, .reason = {}}),
      finished_(running_) {
  running_.front().score = 0.0f;
}

std::vector<std::vector<int32_t>> BeamChooser::prompts() const {
  stopping_.begin();
  std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(beams_));
  prompts.front() = prefilled_;
  return prompts;
}

Choice BeamChooser::choose(std::span<const float> logits) {
  LOCKSTEP_CHECK(std::ssize(logits) == beams_ * vocabulary_, logits.size(), beams_, vocabulary_);
  const bool is_first = new_tokens() == 0;
  score(logits);
  const std::vector<Continuation> continuations = best_continuations();
  finish(continuations, logits);
  const std::vector<Continuation> next = go_on(continuations);
  Choice choice;
  std::vector<Beam> running;
  for (const Continuation& continuation : next) {
    running.push_back(extended(continuation, logits));
    choice.tokens.push_back(continuation.token);
    choice.sources.push_back(is_first ? 0 : static_cast<int32_t>(continuation.beam));
  }
  running_ = std::move(running);
  choice.finished = is_over(continuations);
  return choice;
}

void BeamChooser::score(std::span<const float> logits) {
  const auto vocabulary = static_cast<size_t>(vocabulary_);
  std::vector<std::vector<int32_t>> rows;
  scores_.assign(logits.begin(), logits.end());
  for (size_t beam = 0; beam < running_.size(); ++beam) {
    const std::span<float> row = std::span(scores_).subspan(beam * vocabulary, vocabulary);
    if (new_tokens() == 0) std::ranges::copy(logits.first(vocabulary), row.begin());
    log_softmax(row);
    rows.push_back(running_[beam].ids);
  }
  processors_.process_rows(rows, scores_);
  sums_ = scores_;
  for (size_t i = 0; i < sums_.size(); ++i) {
    sums_[i] += running_[i / vocabulary].score;
    if (std::isnan(sums_[i])) sums_[i] = sampling::kExcluded;
  }
}

std::vector<size_t> BeamChooser::highest(size_t count) const {
  std::vector<size_t> order(sums_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto end = order.begin() + static_cast<ptrdiff_t>(count);
  std::partial_sort(order.begin(), end, order.end(),
                    [&](size_t a, size_t b) { return sums_[a] != sums_[b] ? sums_[a] > sums_[b] : a < b; });
  return {order.begin(), end};
}

std::vector<size_t> BeamChooser::draw(size_t count) const {
  const float best = *std::ranges::max_element(sums_);
  std::vector<double> weights;
  for (const float sum : sums_) weights.push_back(std::exp(static_cast<double>(sum) - best));
  std::vector<size_t> drawn;
  for (size_t d = 0; d < count; ++d) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const auto index = static_cast<uint32_t>(new_tokens() * continuations_ + d);
    const double target = total * static_cast<double>(sampling::uniform(draw_.seed, index));
    double sum = 0.0;
    const auto found = std::ranges::find_if(weights, [&](double weight) { return (sum += weight) > target; });
    if (found == weights.end()) break;  // all drawable continuations are used
    drawn.push_back(static_cast<size_t>(found - weights.begin()));
    *found = 0.0;
  }
  for (const size_t next : highest(count)) {  // fill up with excluded ones, which cannot win
    if (drawn.size() < count && std::ranges::find(drawn, next) == drawn.end()) drawn.push_back(next);
  }
  std::ranges::stable_sort(drawn, std::greater<>(), [this](size_t place) { return sums_[place]; });
  return drawn;
}

std::vector<BeamChooser::Continuation> BeamChooser::best_continuations() const {
  const auto vocabulary = static_cast<size_t>(vocabulary_);
  const size_t count = std::min(continuations_, sums_.size());
  std::vector<Continuation> best;
  for (const size_t place : draw_.do_sample ? draw(count) : highest(count)) {
    const size_t beam = place / vocabulary;
    std::vector<int32_t> ids = running_[beam].ids;
    ids.push_back(static_cast<int32_t>(place % vocabulary));
    const auto scores = std::span(scores_).subspan(beam * vocabulary, vocabulary);
    best.push_back({beam, ids.back(), sums_[place], stopping_.check(ids, scores)});
  }
  return best;
}

BeamChooser::Beam BeamChooser::extended(const Continuation& continuation, std::span<const float> logits) const {
  const auto vocabulary = static_cast<size_t>(vocabulary_);
  const size_t row = continuation.beam * vocabulary;
  Beam beam = running_[continuation.beam];
  beam.ids.push_back(continuation.token);
  beam.score = continuation.score;
  beam.reason = continuation.reason;
  const size_t logits_row = new_tokens() == 0 ? 0 : row;
  auto record = record_token(record_, logits.subspan(logits_row, vocabulary),
                             std::span(scores_).subspan(row, vocabulary), continuation.token);
  if (record) beam.records.push_back(std::move(record));
  return beam;
}

float BeamChooser::length_norm(size_t length) const {
  return static_cast<float>(std::pow(static_cast<double>(length), length_penalty_));
}

/// The ended continuations among the first beams compete with the finished beams. With equal scores one that
/// has ended goes before a free place, then the earlier one stays.
void BeamChooser::finish(std::span<const Continuation> continuations, std::span<const float> logits) {
  const size_t first = std::min(continuations.size(), static_cast<size_t>(beams_));
  for (const Continuation& continuation : continuations.first(first)) {
    if (!continuation.reason) continue;
    Beam beam = extended(continuation, logits);
    beam.score /= length_norm(beam.ids.size() - prompt_.size());
    finished_.push_back(std::move(beam));
  }
  std::ranges::stable_sort(finished_, std::greater<>(),
                           [](const Beam& beam) { return std::pair(beam.score, beam.reason.has_value()); });
  finished_.resize(static_cast<size_t>(beams_));
}

std::vector<BeamChooser::Continuation> BeamChooser::go_on(std::span<const Continuation> continuations) const {
  std::vector<Continuation> next(continuations.begin(), continuations.end());
  for (Continuation& continuation : next) continuation.score += continuation.reason ? kOut : 0.0f;
  std::ranges::stable_sort(next, std::greater<>(), &Continuation::score);
  while (std::ssize(next) < beams_) next.push_back(next.back());  // the vocabulary is smaller than the number of beams
  next.resize(static_cast<size_t>(beams_));
  for (Continuation& continuation : next) continuation.reason.reset();
  return next;
}

/// Whether the best running beam could still beat a finished one or take a free place, if it ended now or, with
/// early_stopping "never" and a reward for length, at the maximum length.
bool BeamChooser::may_improve() const {
  const bool is_latest = early_stopping_ == EarlyStopping::kNever && length_penalty_ > 0.0;
  const size_t length = is_latest ? static_cast<size_t>(max_length_) - prompt_.size() : new_tokens();
  const float best_possible = running_.front().score / length_norm(length);
  return best_possible > std::ranges::min_element(finished_, {}, &Beam::score)->score;
}

bool BeamChooser::is_over(std::span<const Continuation> continuations) const {
  const bool is_full = std::ranges::all_of(finished_, [](const Beam& beam) { return beam.reason.has_value(); });
  const bool all_end = std::ranges::all_of(
      continuations, [](const Continuation& continuation) { return continuation.reason.has_value(); });
  return !may_improve() || (is_full && early_stopping_ == EarlyStopping::kYes) || all_end;
}

std::vector<Sequence> BeamChooser::sequences() const {
  std::vector<Sequence> sequences;
  for (const Beam& beam : std::span(finished_).first(returned_)) {
    sequences.push_back({.ids = {beam.ids.begin() + std::ssize(prompt_), beam.ids.end()},
                         .score = beam.score,
                         .reason = beam.reason.value_or(FinishReason::kCancelled),
                         .records = beam.records});
  }
  return sequences;
}

}  // namespace lockstep::generation
