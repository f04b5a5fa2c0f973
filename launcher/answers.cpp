#include "launcher/answers.h"

#include <utility>

namespace lockstep::launcher {

Answers::Answers(const Clock& clock, Options options)
    : clock_(clock), options_(std::move(options)), start_(clock.now()), answers_(options_.rows), texts_(options_.rows) {
  if (options_.tokenizer == nullptr) return;
  for (RowText& text : texts_) {
    text.decoder.emplace(*options_.tokenizer, text::SpecialPieces::kSkip);
    text.stops.emplace(options_.stop_strings);
  }
}

void Answers::append(size_t row, std::string_view text) {
  answers_[row].text += text;
  if (row == 0 && options_.show && !text.empty()) options_.show(text);
}

actors::Verdict Answers::on_token(RequestId request, int32_t token, std::span<const float> logits) {
  const auto row = static_cast<size_t>(request.value);
  Answer& answer = answers_.at(row);
  answer.tokens.push_back(token);
  answer.token_times.push_back(clock_.now());
  answer.logits.insert(answer.logits.end(), logits.begin(), logits.end());
  const bool late = options_.max_time && clock_.now() - start_ >= *options_.max_time;
  RowText& text = texts_[row];
  if (!text.decoder) return late ? actors::Verdict::kStop : actors::Verdict::kContinue;
  const auto piece = text.decoder->put(token);
  if (!piece.has_value()) {
    answer.error = piece.error();
    return actors::Verdict::kStop;
  }
  const generation::StopStrings::Outcome outcome = text.stops->put(piece.value());
  append(row, outcome.text);
  return outcome.stopped || late ? actors::Verdict::kStop : actors::Verdict::kContinue;
}

void Answers::on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) {
  const auto row = static_cast<size_t>(request.value);
  Answer& answer = answers_.at(row);
  answer.reason = reason;
  if (error) answer.error = error;
  RowText& text = texts_[row];
  if (!text.decoder) return;
  if (text.stops->stopped()) return;
  if (const auto rest = text.decoder->finish(); rest.has_value()) {
    const generation::StopStrings::Outcome outcome = text.stops->put(rest.value());
    append(row, outcome.text);
    append(row, text.stops->finish());
  }
}

std::optional<double> Answers::ttft_s() const {
  if (answers_.empty() || answers_.front().token_times.empty()) return std::nullopt;
  return to_seconds(answers_.front().token_times.front() - start_);
}

std::optional<double> Answers::tpot_s() const {
  Duration total{};
  int64_t intervals = 0;
  for (const Answer& answer : answers_) {
    if (answer.token_times.size() < 2) continue;
    total += answer.token_times.back() - answer.token_times.front();
    intervals += static_cast<int64_t>(answer.token_times.size()) - 1;
  }
  if (intervals == 0) return std::nullopt;
  return to_seconds(total) / static_cast<double>(intervals);
}

int64_t Answers::tokens() const {
  int64_t count = 0;
  for (const Answer& answer : answers_) count += static_cast<int64_t>(answer.tokens.size());
  return count;
}

}  // namespace lockstep::launcher
