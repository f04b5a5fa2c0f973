// Durable recording of finished rows on a separate thread. Rows that finish during a write share the next write.
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

#include "launcher/rows/row_results.h"
#include "runtime/core/clock.h"

namespace lockstep::launcher {

/// The methods may be called from any thread.
class RowRecorder {
 public:
  /// `results` is borrowed and used by no other code until `finish`. `on_failure` is called once, on the recorder's
  /// thread, when a row cannot be recorded; `on_recorded` after each write with the rows so far.
  RowRecorder(RowResults& results, std::function<void(const Error&)> on_failure,
              std::function<void(uint64_t)> on_recorded);
  ~RowRecorder();
  RowRecorder(const RowRecorder&) = delete;
  RowRecorder& operator=(const RowRecorder&) = delete;

  /// Waits until fewer than `limit` rows are handed out and not recorded, then counts one more. False when the recorder
  /// failed or was stopped, or at `end`. @blocking
  bool wait_for_room(size_t limit, std::optional<TimePoint> end = std::nullopt);

  /// Counts one more row as handed out, without a limit.
  void admit();

  /// Takes a finished row that was handed out. Never waits: the rows handed out are its bound.
  void put(journal::RowResult row);

  /// Takes back a row that was handed out: it will not be put.
  void release();

  /// Ends all waits for room.
  void stop();

  /// Records the remaining rows and ends the thread; returns the first error, if there was one. @blocking
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
