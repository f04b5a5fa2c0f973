#include "launcher/generate/answers.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::launcher {

void Answers::ShownText::append(std::string_view text) {
  text_ += text;
  if (show_ && !text.empty()) show_(text);
}

Answers::RowText::RowText(const Options& options, size_t row, std::string& text)
    : shown(options.stop_strings, text, row == 0 ? options.show : Show()),
      streamer(*options.tokenizer, shown, generation::PromptText::kShow) {}  // it gets new tokens only

Answers::Answers(const Clock& clock, Options options)
    : clock_(clock), options_(std::move(options)), start_(clock.now()), answers_(options_.rows) {
  for (Answer& answer : answers_) answer.times.submitted = start_;
  if (options_.tokenizer == nullptr) return;
  for (size_t row = 0; row < options_.rows; ++row) {
    texts_.push_back(std::make_unique<RowText>(options_, row, answers_[row].text));
  }
}

void Answers::mark_start() {
  start_ = clock_.now();
  for (Answer& answer : answers_) answer.times = {.submitted = start_, .made = {}};
}

bool Answers::put_text(size_t row, int32_t token) {
  if (texts_.empty()) return false;
  RowText& text = *texts_[row];
  const Result<void> put = text.streamer.put(std::span(&token, 1));
  if (!put.has_value()) answers_[row].error = put.error();
  return !put.has_value() || text.shown.stopped();
}

void Answers::finish_text(size_t row) {
  Answer& answer = answers_[row];
  if (texts_.empty() || answer.error) return;
  const Result<void> ended = texts_[row]->streamer.end(answer.reason);
  if (!ended.has_value()) answer.error = ended.error();
}

actors::Verdict Answers::on_token(RequestId request, const actors::MadeToken& token) {
  const auto row = static_cast<size_t>(request.value);
  Answer& answer = answers_.at(row);
  answer.tokens.push_back(token.id);
  answer.times.made.push_back(token.made);
  answer.logits.insert(answer.logits.end(), token.logits.begin(), token.logits.end());
  const bool late = options_.max_time && clock_.now() - start_ >= *options_.max_time;
  return put_text(row, token.id) || late ? actors::Verdict::kStop : actors::Verdict::kContinue;
}

void Answers::on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) {
  const auto row = static_cast<size_t>(request.value);
  Answer& answer = answers_.at(row);
  answer.reason = reason;
  if (options_.as_made) finish_text(row);
  if (error) answer.error = error;
}

void Answers::adopt(RequestId request, const std::vector<generation::Sequence>& sequences) {
  const auto first = static_cast<size_t>(request.value);
  if (answers_.at(first).error) return;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const generation::Sequence& sequence = sequences[i];
    Answer& answer = answers_.at(first + i);
    answer.records = sequence.records;
    if (options_.as_made) {
      answer.records.resize(std::min(answer.records.size(), answer.tokens.size()));  // a stop may come before the end
    } else {
      answer.tokens = sequence.ids;
      answer.score = sequence.score;
      answer.reason = sequence.reason;
      for (const int32_t token : answer.tokens) {
        if (put_text(first + i, token)) break;
      }
      finish_text(first + i);
    }
    for (const auto& record : answer.records) {  // a run by the host keeps the raw logits there
      answer.logits.insert(answer.logits.end(), record->logits.begin(), record->logits.end());
    }
  }
}

std::optional<double> Answers::ttft_s() const {
  const auto first = answers_.empty() ? std::nullopt : answers_.front().times.time_to_first_token();
  return first ? std::optional(to_seconds(*first)) : std::nullopt;
}

std::optional<double> Answers::tpot_s() const {
  Duration total{};
  int64_t intervals = 0;
  for (const Answer& answer : answers_) {
    const std::vector<Duration> latencies = answer.times.latencies();
    if (latencies.size() < 2) continue;
    total = std::accumulate(latencies.begin() + 1, latencies.end(), total);
    intervals += std::ssize(latencies) - 1;
  }
  if (intervals == 0) return std::nullopt;
  return to_seconds(total) / static_cast<double>(intervals);
}

int64_t Answers::tokens() const {
  int64_t count = 0;
  for (const Answer& answer : answers_) count += std::ssize(answer.tokens);
  return count;
}

}  // namespace lockstep::launcher
