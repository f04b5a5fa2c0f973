// Makes finished rows durable, away from the thread that finishes them: rows that finish while a write is under way go
// together into the next one.
//
//   put ──► waiting rows ──► the recorder's thread: append, on disk ──► recorded
//   wait_for_room(limit)  ◄── handed out and not recorded: fewer than the limit
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "launcher/batch/row_results.h"

namespace lockstep::launcher {

/// The methods may be called from any thread.
class RowRecorder {
 public:
  /// `results` is borrowed and left alone by everybody else until `finish`. `on_failure` is called once, on the
  /// recorder's thread, when a row cannot be recorded; `on_recorded` after each write with the rows so far.
  RowRecorder(RowResults& results, std::function<void(const Error&)> on_failure,
              std::function<void(uint64_t)> on_recorded);
  ~RowRecorder();
  RowRecorder(const RowRecorder&) = delete;
  RowRecorder& operator=(const RowRecorder&) = delete;

  /// Waits until fewer than `limit` rows are under way, and counts one more: it is handed out. False when the recorder
  /// failed or was stopped. @blocking
  bool wait_for_room(size_t limit);

  /// A row that was handed out is finished. Never waits: the rows handed out are its bound.
  void put(journal::RowResult row);

  /// A row that was handed out will not be put.
  void release();

  /// Nobody waits for room any more.
  void stop();

  /// Records what is left and ends the thread; the first error, if there was one. @blocking
  Result<void> finish();

 private:
  void run();

  RowResults& results_;
  const std::function<void(const Error&)> on_failure_;
  const std::function<void(uint64_t)> on_recorded_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<journal::RowResult> waiting_;
  size_t under_way_ = 0;  // handed out and not recorded
  bool stopped_ = false;
  bool ending_ = false;
  std::optional<Error> error_;
  std::thread thread_;
};

}  // namespace lockstep::launcher
