// Where the stages of one process are announced, timed, reported and, when they hang, ended. Rank 0's desk prints; the
// others' only watch, and give rank 0 a little longer.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "launcher/measure/doctor/doctor.h"
#include "launcher/measure/doctor/doctor_report.h"
#include "launcher/measure/doctor/stage_table.h"
#include "runtime/core/clock.h"

namespace lockstep::launcher {

/// Ranks that carry signs of life, or threads that cannot be silent on their own.
enum class Signs { kCarried, kNone };

/// Used by one thread; the watching is on another.
class StageReporter {
 public:
  /// Everything is borrowed.
  StageReporter(const DoctorCommand& command, const Clock& clock, const StageTable& board, int rank, Signs signs);
  ~StageReporter();
  StageReporter(const StageReporter&) = delete;
  StageReporter& operator=(const StageReporter&) = delete;

  /// The clock of stage `stage` (of stages.h) starts. A stage that outlives its deadline, or in which a rank falls
  /// silent, ends the process: rank 0 reports which ranks are missing first.
  void enter(int stage);

  /// The stage has ended with the last check of `report`.
  void leave(const DoctorReport& report);

  /// Prints the verdict and writes --json; `report` is whole. Ends nothing.
  Result<void> close(const DoctorReport& report);

 private:
  void watch();
  /// Why the stage cannot go on; empty while it can.
  std::optional<Check> why_expired() const;
  [[noreturn]] void expire(const Check& check);

  const DoctorCommand& command_;
  const Clock& clock_;
  const StageTable& board_;
  const int rank_;
  const Signs signs_;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  DoctorReport report_;
  int stage_ = -1;  // −1: between stages
  TimePoint entered_{};
  bool done_ = false;
  std::thread thread_;
};

/// What is said of a stage that did not end: who is missing, and what to do about it. Pure.
Check expired_check(int stage, const std::vector<std::string>& missing, double seconds);

/// The checks of all stages after those in `report`, skipped for `why`.
void skip_rest(DoctorReport& report, const std::string& why);

}  // namespace lockstep::launcher
