// Timing, deadlines and reports of one process's stages. Rank 0's object prints; the others' only watch, and end a
// stage a little later than rank 0.
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

/// Whether ranks send signs of life; threads of one process cannot be silent alone.
enum class Signs { kCarried, kNone };

/// Used by one thread; a second thread watches.
class StageReporter {
 public:
  /// Everything is borrowed.
  StageReporter(const DoctorCommand& command, const Clock& clock, const StageTable& board, int rank, Signs signs);
  ~StageReporter();
  StageReporter(const StageReporter&) = delete;
  StageReporter& operator=(const StageReporter&) = delete;

  /// Starts the clock of stage `stage` (of stages.h). A stage that exceeds its deadline, or has a silent rank, ends the
  /// process: rank 0 reports first which ranks are missing.
  void enter(int stage);

  /// The stage has ended with the last check of `report`.
  void leave(const DoctorReport& report);

  /// Prints the verdict and writes --json; `report` is complete. Does not end the process.
  Result<void> close(const DoctorReport& report);

 private:
  void watch();
  /// Why the stage cannot continue; empty if it can.
  std::optional<Check> why_expired() const;
  [[noreturn]] void expire(const Check& check);

  const DoctorCommand& command_;
  const Clock& clock_;
  const StageTable& board_;
  const int rank_;
  const Signs signs_;

  std::mutex mutex_;  // guards the fields below
  std::condition_variable changed_;
  DoctorReport report_;
  int stage_ = -1;  // −1: between stages
  TimePoint entered_{};
  bool done_ = false;
  std::thread thread_;
};

/// The check of a stage that did not end: the missing ranks, and the next step for the user. Pure.
Check expired_check(int stage, const std::vector<std::string>& missing, double seconds);

/// Adds the checks of all stages after those in `report`, skipped for the reason `why`.
void skip_rest(DoctorReport& report, const std::string& why);

}  // namespace lockstep::launcher
