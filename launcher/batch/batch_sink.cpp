#include "launcher/batch/batch_sink.h"

#include <utility>

namespace lockstep::launcher {

void BatchSink::open(size_t row, const PreparedRow& prepared) {
  OpenRow open{.answers = std::make_unique<Answers>(clock_, Answers::Options{.rows = options_.answers_of_row,
                                                                             .tokenizer = options_.tokenizer,
                                                                             .stop_strings = prepared.stop_strings,
                                                                             .max_time = {},
                                                                             .show = {},
                                                                             .as_made = options_.as_made}),
               .choosers = {},
               .left = prepared.requests.size(),
               .error = {}};
  for (const JobRequest& made : prepared.requests) {
    if (made.request.chooser) open.choosers.push_back(made.request);
  }
  std::lock_guard lock(mutex_);
  open_.emplace(row, std::move(open));
}

BatchSink::OpenRow& BatchSink::at(RequestId request) {
  std::lock_guard lock(mutex_);
  return open_.at(static_cast<size_t>(request.value) / options_.answers_of_row);
}

/// The number of a request's first answer among those of its row.
RequestId BatchSink::inside(RequestId request) const {
  return RequestId(request.value % static_cast<int64_t>(options_.answers_of_row));
}

actors::Verdict BatchSink::on_token(RequestId request, const actors::MadeToken& token) {
  return at(request).answers->on_token(inside(request), token);
}

void BatchSink::on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) {
  OpenRow& open = at(request);
  open.answers->on_finish(inside(request), reason, error);
  for (const actors::Request& chosen : open.choosers) {
    if (chosen.id == request && !error) open.answers->adopt(inside(request), chosen.chooser->sequences());
  }
  if (error && !open.error) open.error = error;
  if (--open.left > 0) return;
  const size_t row = static_cast<size_t>(request.value) / options_.answers_of_row;
  journal::RowResult result = result_of(row, open);
  const bool was_refused = open.error.has_value();
  {
    std::lock_guard lock(mutex_);
    tokens_ += open.answers->tokens();
    open_.erase(row);
    if (was_refused) refused_.push_back(std::move(result));
  }
  if (was_refused) {
    recorder_.release();
  } else {
    recorder_.put(std::move(result));
  }
}

journal::RowResult BatchSink::result_of(size_t row, const OpenRow& open) const {
  journal::RowResult result{.row = row, .answers = {}, .error = {}};
  std::optional<Error> error = open.error;
  for (const Answer& answer : open.answers->rows()) {
    if (answer.error && !error) error = answer.error;
    result.answers.push_back(to_row_answer(answer));
  }
  if (!error) return result;
  result.answers.clear();
  result.error = error->message;
  return result;
}

std::vector<journal::RowResult> BatchSink::refused() const {
  std::lock_guard lock(mutex_);
  return refused_;
}

int64_t BatchSink::tokens() const {
  std::lock_guard lock(mutex_);
  return tokens_;
}

journal::RowAnswer to_row_answer(const Answer& answer) {
  journal::RowAnswer made{.tokens = answer.tokens,
                          .text = answer.text,
                          .finish_reason = std::string(generation::to_string(answer.reason)),
                          .score = answer.score,
                          .logprobs = {},
                          .likeliest = {}};
  for (const auto& record : answer.records) {
    made.logprobs.push_back(record->logprob);
    auto& likeliest = made.likeliest.emplace_back();
    for (const generation::TokenLogprob& token : record->top) likeliest.push_back({token.id, token.logprob});
  }
  return made;
}

}  // namespace lockstep::launcher
