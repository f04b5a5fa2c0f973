// Collects the answers of a batch job's rows while they are made, and hands each row on when its last answer is there.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/request.h"
#include "launcher/batch/row_recorder.h"
#include "launcher/batch/row_requests.h"
#include "launcher/generate/answers.h"
#include "runtime/journal/row_record.h"

namespace lockstep::launcher {

/// Its calls from the session come on the coordinator's thread.
class BatchSink final : public actors::Sink {
 public:
  /// What all rows share; borrowed.
  struct Options {
    const text::Tokenizer* tokenizer = nullptr;  // null: no texts
    size_t answers_of_row = 1;
    bool as_made = true;  // false: tokens are known at the end only
  };

  BatchSink(const Clock& clock, Options options, RowRecorder& recorder)
      : clock_(clock), options_(options), recorder_(recorder) {}

  /// A row is about to be submitted. Any thread.
  void open(size_t row, const PreparedRow& prepared);

  actors::Verdict on_token(RequestId request, const actors::MadeToken& token) override;
  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override;

  /// Rows that the session refused or could not answer. They are rows without an answer if the session ended well, and
  /// nothing at all if it did not: then the error may be the session's own. Call when it has ended.
  std::vector<journal::RowResult> refused() const;

  /// New tokens of the rows that were handed on.
  int64_t tokens() const;

 private:
  /// A row under way.
  struct OpenRow {
    std::unique_ptr<Answers> answers;
    std::vector<actors::Request> choosers;  // of requests whose tokens the host chooses
    size_t left = 0;                        // requests
    std::optional<Error> error;
  };

  OpenRow& at(RequestId request);
  RequestId inside(RequestId request) const;
  journal::RowResult result_of(size_t row, const OpenRow& open) const;

  const Clock& clock_;
  const Options options_;
  RowRecorder& recorder_;
  mutable std::mutex mutex_;
  std::map<size_t, OpenRow> open_;  // stable addresses: a row is used outside the mutex by the session's thread alone
  std::vector<journal::RowResult> refused_;
  int64_t tokens_ = 0;
};

/// An answer as it is recorded.
journal::RowAnswer to_row_answer(const Answer& answer);

}  // namespace lockstep::launcher
