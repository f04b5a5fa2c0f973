#include "engine/requests/request_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace lockstep {
namespace requests {

RequestState::RequestState(Setup setup, std::span<const int32_t> prompt)
    : setup_(std::move(setup)), rows_(setup_.answers), parts_left_(setup_.parts) {
  for (Row& row : rows_) {
    row.answer.times.submitted = setup_.clock->now();
    if (setup_.tokenizer == nullptr) continue;
    const auto special = setup_.special_text ? text::SpecialPieces::kKeep : text::SpecialPieces::kSkip;
    row.text = std::make_unique<AnswerText>(*setup_.tokenizer, setup_.stop_strings, special);
    if (const Result<void> followed = row.text->follow(prompt); !followed.has_value()) error_ = followed.error();
  }
}

void RequestState::link(Links links) {
  std::lock_guard lock(mutex_);
  links_ = std::move(links);
}

void RequestState::set_number(int64_t number) {
  std::lock_guard lock(mutex_);
  if (number_ < 0) number_ = number;
}

int64_t RequestState::number() const {
  std::lock_guard lock(mutex_);
  return number_;
}

int64_t RequestState::note_cached(const Part& part, int64_t tokens) {
  std::lock_guard lock(mutex_);
  Row& row = rows_.at(part.first_answer);
  if (std::exchange(row.has_cached, true)) return 0;
  const int64_t cached = std::min(tokens, std::ssize(part.request.ids));
  for (size_t i = 0; i < part.answers; ++i) rows_.at(part.first_answer + i).answer.cached_tokens = cached;
  return cached;
}

int64_t RequestState::take_count() {
  std::lock_guard lock(mutex_);
  return std::exchange(uncounted_, 0);
}

actors::MadeToken RequestState::recorded(const actors::MadeToken& token) const {
  if (setup_.model_logprobs < 0 || token.record || token.logits.empty()) return token;
  actors::MadeToken made = token;
  made.record = generation::record_token({.model_top = setup_.model_logprobs}, token.logits, {}, token.id);
  return made;
}

bool RequestState::add(Row& row, const actors::MadeToken& token) {
  Answer& answer = row.answer;
  answer.ids.push_back(token.id);
  ++uncounted_;
  answer.times.made.push_back(token.made);
  if (token.record) answer.records.push_back(token.record);
  if (setup_.keeps_logits) {
    const bool is_recorded = token.logits.empty() && token.record != nullptr;
    const std::span<const float> logits = is_recorded ? std::span(token.record->logits) : token.logits;
    answer.logits.insert(answer.logits.end(), logits.begin(), logits.end());
  }
  const bool is_end = setup_.special_text && std::ranges::find(setup_.end_ids, token.id) != setup_.end_ids.end();
  if (row.text == nullptr || is_end) return false;
  if (const Result<void> put = row.text->put(token.id); !put.has_value()) {
    if (!error_) error_ = put.error();
    return true;
  }
  return row.text->stopped();
}

bool RequestState::start() {
  std::lock_guard lock(mutex_);
  if (!started_) started_ = setup_.clock->now();
  return !std::exchange(is_running_, true);
}

bool RequestState::is_running() const {
  std::lock_guard lock(mutex_);
  return is_running_;
}

void RequestState::suspend(const Error& why) {
  {
    std::lock_guard lock(mutex_);
    if (suspension_) return;
    suspension_ = why;
    links_.stop = nullptr;  // the session may be destroyed from here on
  }
  changed_.notify_all();
}

bool RequestState::has_ended(const Part& part, FinishReason reason) const {
  std::lock_guard lock(mutex_);
  const Row& row = rows_.at(part.first_answer);
  if (row.is_cut || row.has_stopped || is_cancelled_) return true;
  const bool is_end = reason == FinishReason::kEos || reason == FinishReason::kLength;
  return is_end && !row.has_missed;
}

void RequestState::resume(const std::vector<Part>& restarted) {
  std::lock_guard lock(mutex_);
  suspension_.reset();
  is_running_ = false;
  for (Row& row : rows_) row.has_missed = false;
  for (const Part& part : restarted) {
    if (part.as_made) rows_.at(part.first_answer).replayed = rows_[part.first_answer].answer.ids.size();
  }
}

Result<bool> RequestState::adopt(const Part& part, std::span<const AnswerSoFar> answers) {
  std::lock_guard lock(mutex_);
  if (!part.as_made) {
    for (size_t i = 0; i < answers.size(); ++i) rows_.at(part.first_answer + i).replayed = answers[i].ids.size();
    return false;
  }
  const AnswerSoFar& so_far = answers.front();
  Row& row = rows_.at(part.first_answer);
  for (const int32_t id : so_far.ids) {
    add(row, {.id = id, .made = setup_.clock->now()});
    if (error_) return *error_;
  }
  if (row.text != nullptr) row.text->take_piece();
  const std::optional<FinishReason> reason = so_far.reason ? so_far.reason : end_of(row, part);
  if (!reason) {
    row.replayed = part.restarts() ? so_far.ids.size() : 0;
    return false;
  }
  row.answer.reason = *reason;
  row.is_complete = true;
  finish_text(part.first_answer);
  --parts_left_;
  return true;
}

/// Judges as actors::ActiveRequests and the criteria of choosers do, whose end goes before that of the text.
std::optional<FinishReason> RequestState::end_of(const Row& row, const Part& part) {
  const std::vector<int32_t>& ids = row.answer.ids;
  const shards::SlotParameters& parameters = part.request.parameters;
  const bool is_host_chosen = part.request.chooser != nullptr;
  const bool is_full = std::ssize(ids) >= parameters.max_new_tokens;
  const bool is_stopped = row.text != nullptr && row.text->stopped();
  if (part.restarts()) {  // its chooser judges the tokens when it repeats them
    return is_stopped && !is_full ? std::optional(FinishReason::kStop) : std::nullopt;
  }
  const bool is_end = !ids.empty() && std::ranges::find(parameters.eos_ids, ids.back()) != parameters.eos_ids.end();
  if (is_end) return FinishReason::kEos;
  if (is_stopped && !(is_host_chosen && is_full)) return FinishReason::kStop;
  return is_full ? std::optional(FinishReason::kLength) : std::nullopt;
}

std::vector<AnswerSoFar> RequestState::history() const {
  std::lock_guard lock(mutex_);
  std::vector<AnswerSoFar> answers;
  for (const Row& row : rows_) {
    answers.push_back({row.answer.ids, row.is_complete ? std::optional(row.answer.reason) : std::nullopt});
  }
  return answers;
}

actors::Verdict RequestState::replay(Row& row, int32_t id) {
  const size_t place = row.answer.ids.size() - row.replayed--;
  if (row.answer.ids[place] == id) return actors::Verdict::kContinue;
  if (!error_) {
    error_ =
        Error{ErrorKind::kInternal,
              fmt::format("[engine/requests] a resumed request differs: found token {} at place {}, expected {} as "
                          "before; this is a bug, please report it",
                          id, place, row.answer.ids[place])};
  }
  return actors::Verdict::kStop;
}

actors::Verdict RequestState::take(const Part& part, const actors::MadeToken& token) {
  std::lock_guard lock(mutex_);
  Row& row = rows_.at(part.first_answer);
  if (row.is_cut || is_cancelled_) return actors::Verdict::kStop;
  if (suspension_) {
    row.has_missed = true;
    return actors::Verdict::kStop;
  }
  if (row.replayed > 0) return replay(row, token.id);
  const actors::MadeToken made = recorded(token);
  const bool ends = add(row, made);
  const bool is_late = setup_.max_time && started_ && token.made - *started_ >= *setup_.max_time;
  deliver(part.first_answer, made);
  row.has_stopped = ends || is_late;
  return row.has_stopped ? actors::Verdict::kStop : actors::Verdict::kContinue;
}

/// Passes the newest token of a row to the caller's function.
void RequestState::deliver(size_t index, const actors::MadeToken& token) {
  if (!setup_.on_token) return;
  Row& row = rows_[index];
  std::string piece(row.text == nullptr ? "" : row.text->take_piece());
  setup_.delivery->post([self = shared_from_this(), index, id = token.id, piece = std::move(piece), made = token.made,
                         record = token.record, place = row.answer.ids.size(),
                         text_size = row.text == nullptr ? 0 : row.text->text().size()] {
    self->call({.answer = index, .id = id, .text = piece, .made = made, .record = record.get()}, place, text_size);
  });
}

/// Runs on the delivery thread. The answer has `place` tokens and `text_size` bytes of text with this token.
void RequestState::call(const Token& token, size_t place, size_t text_size) {
  {
    std::lock_guard lock(mutex_);
    if (rows_[token.answer].is_cut) return;
  }
  Verdict verdict = Verdict::kStop;
  std::optional<Error> thrown;
  try {
    verdict = setup_.on_token(token);
  } catch (const std::exception& failure) {
    thrown = Error{ErrorKind::kInternal, fmt::format("[engine/requests] on_token failed: {}", failure.what())};
  } catch (...) {
    thrown = Error{ErrorKind::kInternal, "[engine/requests] on_token failed: it threw an unknown exception"};
  }
  if (verdict == Verdict::kContinue) return;
  std::function<void()> stop;
  {
    std::lock_guard lock(mutex_);
    if (thrown && !error_) error_ = thrown;
    cut(rows_[token.answer], place, text_size);
    stop = links_.stop;
  }
  const bool is_whole = rows_.size() == 1 || thrown;  // other answers continue
  if (stop && is_whole) stop();
}

/// Ends the row with its first `tokens` tokens.
void RequestState::cut(Row& row, size_t tokens, size_t text_size) {
  Answer& answer = row.answer;
  const size_t vocabulary = answer.ids.empty() ? 0 : answer.logits.size() / answer.ids.size();
  row.is_cut = true;
  answer.reason = FinishReason::kStop;
  answer.ids.resize(tokens);
  answer.times.made.resize(std::min(answer.times.made.size(), tokens));
  answer.records.resize(std::min(answer.records.size(), tokens));
  answer.logits.resize(tokens * vocabulary);
  if (row.text != nullptr) answer.text = row.text->text().substr(0, text_size);
}

bool RequestState::finish(const Part& part, FinishReason reason, const std::optional<Error>& error) {
  std::lock_guard lock(mutex_);
  if (error && !error_) error_ = error;
  if (part.request.chooser && !error) adopt_sequences(part);
  for (size_t i = part.first_answer; i < part.first_answer + part.answers; ++i) {
    Row& row = rows_[i];
    row.is_complete = true;
    if (row.is_cut) continue;
    if (part.as_made || error) row.answer.reason = reason;
    if (is_cancelled_) row.answer.reason = FinishReason::kCancelled;
    finish_text(i);
  }
  if (--parts_left_ > 0) return false;
  links_.stop = nullptr;  // the session may be destroyed from here on
  return true;
}

/// Takes the sequences of a chooser that has its tokens at the end only.
void RequestState::adopt_sequences(const Part& part) {
  if (part.as_made) return;
  const std::vector<generation::Sequence> sequences = part.request.chooser->sequences();
  for (size_t i = 0; i < std::min(sequences.size(), part.answers); ++i) {
    const generation::Sequence& sequence = sequences[i];
    Row& row = rows_[part.first_answer + i];
    row.answer.score = sequence.score;
    row.answer.reason = sequence.reason;
    for (size_t t = 0; t < sequence.ids.size(); ++t) {
      const actors::MadeToken made{.id = sequence.ids[t],
                                   .record = t < sequence.records.size() ? sequence.records[t] : nullptr};
      const bool ends = add(row, made);
      if (t >= row.replayed) {
        deliver(part.first_answer + i, made);
      } else if (row.text != nullptr) {
        row.text->take_piece();
      }
      if (ends) break;
    }
    row.answer.times.made.clear();
  }
}

void RequestState::finish_text(size_t index) {
  Row& row = rows_[index];
  if (row.text == nullptr) return;
  if (!error_) {
    if (const Result<void> ended = row.text->finish(row.answer.reason); !ended.has_value()) error_ = ended.error();
  }
  row.answer.text = row.text->text();
  row.answer.stop_string = row.text->stop_string();
  const std::string rest(row.text->take_piece());
  if (rest.empty() || !setup_.on_token) return;
  setup_.delivery->post([self = shared_from_this(), index, rest] {
    self->call({.answer = index, .id = kNoToken, .text = rest, .made = {}, .record = nullptr},
               self->rows_[index].answer.ids.size(), self->rows_[index].answer.text.size());
  });
}

void RequestState::abandon() {
  std::lock_guard lock(mutex_);
  is_abandoned_ = true;
}

bool RequestState::is_abandoned() const {
  std::lock_guard lock(mutex_);
  return is_abandoned_;
}

void RequestState::complete() {
  if (setup_.on_token) return setup_.delivery->post([self = shared_from_this()] { self->set_done(); });
  set_done();
}

/// Runs on the delivery thread after the last token callback, if the caller has a function for tokens.
void RequestState::set_done() {
  std::function<void()> call;
  {
    std::lock_guard lock(mutex_);
    is_done_ = true;
    links_ = {};  // the engine may be destroyed from here on
    call = std::exchange(on_done_, nullptr);
  }
  changed_.notify_all();
  if (call) setup_.delivery->post(std::move(call));
}

bool RequestState::is_done() const {
  std::lock_guard lock(mutex_);
  return is_done_;
}

void RequestState::cancel() {
  std::function<void()> stop;
  {
    std::lock_guard lock(mutex_);
    if (is_done_ || parts_left_ == 0) return;
    is_cancelled_ = true;
    stop = links_.stop;
  }
  if (stop) stop();
}

Result<std::vector<Answer>> RequestState::wait() {
  std::unique_lock lock(mutex_);
  const auto done = [this] { return is_done_ || suspension_; };
  if (done()) {
  } else if (const auto wait = links_.wait) {
    wait(lock, changed_, done);
  } else {
    changed_.wait(lock, done);
  }
  if (!is_done_) return *suspension_;
  if (error_) return *error_;
  std::vector<Answer> answers;
  for (const Row& row : rows_) {
    answers.push_back(row.answer);
    if (started_) answers.back().waited = *started_ - row.answer.times.submitted;
  }
  return answers;
}

TimePoint RequestState::submitted(size_t answer) const {
  std::lock_guard lock(mutex_);
  return rows_.at(answer).answer.times.submitted;
}

std::vector<int32_t> RequestState::so_far(size_t answer) const {
  std::lock_guard lock(mutex_);
  return rows_.at(answer).answer.ids;
}

void RequestState::on_done(std::function<void()> call) {
  std::unique_lock lock(mutex_);
  if (!is_done_) {
    on_done_ = std::move(call);
    return;
  }
  lock.unlock();
  call();
}

}  // namespace requests

bool RequestHandle::is_done() const { return state_->is_done(); }
void RequestHandle::cancel() { state_->cancel(); }
Result<std::vector<Answer>> RequestHandle::wait() { return state_->wait(); }
std::vector<int32_t> RequestHandle::so_far(size_t answer) const { return state_->so_far(answer); }
void RequestHandle::on_done(std::function<void()> call) { state_->on_done(std::move(call)); }
int64_t RequestHandle::number() const { return state_->number(); }
bool RequestHandle::is_abandoned() const { return state_->is_abandoned(); }

}  // namespace lockstep
