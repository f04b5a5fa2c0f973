// What a batch job keeps: what its first start has decided, its results, and its report.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "launcher/batch/row_work.h"
#include "launcher/process/progress_line.h"
#include "launcher/rows/row_results.h"
#include "launcher/rows/row_wire.h"
#include "launcher/rows/shared_rows.h"
#include "runtime/core/clock.h"
#include "runtime/core/log.h"

namespace lockstep::launcher {

/// Rows that one of several groups with `slots` slots works on at once: some wait, so that no slot does.
inline size_t rows_at_once(int64_t slots) { return 2 * static_cast<size_t>(slots); }

/// Used by one thread. The command, the log and the line are borrowed.
class JobRecord {
 public:
  JobRecord(const GenerateCommand& command, const Log& log, ProgressLine& progress)
      : command_(command), log_(log), progress_(progress) {}

  /// Opens the results, goes on with the journal or begins it, and tells `work` the time of the job's first start.
  /// Fails as the journal does, and for a capacity that the model does not have.
  Result<void> open(const Model& model, RowWork& work);
  /// For every group of ranks; after `open`.
  RowSetup setup() const { return {start_.capacity, start_.unix_time, rows_ - done_before_, job_}; }

  /// The rows without results, for groups with `slots` slots in all. `on_failure` as of RowRecorder.
  std::unique_ptr<SharedRows> share(int64_t slots, std::function<void(const Error&)> on_failure);
  /// Records the rest. @blocking
  Result<void> finish(SharedRows& rows);

  /// Writes the answers of all rows, which have results.
  Result<void> report(RowWork& work);

 private:
  /// Results of a job's first start; later starts must use the same.
  struct FirstStart {
    int64_t capacity = 1;
    int64_t unix_time = 0;
  };

  Result<FirstStart> first_start(const Model& model, RowWork& work);
  Result<FirstStart> enter_journal(const Model& model, RowWork& work, journal::JobDescription job,
                                   journal::Journal& journal);
  Result<FirstStart> open_results(const Model& model, RowWork& work, journal::JobDescription job);
  void report_progress(uint64_t done);

  const GenerateCommand& command_;
  const Log& log_;
  ProgressLine& progress_;
  const SteadyClock clock_;
  std::unique_ptr<RowResults> results_;
  FirstStart start_;
  const SharedRows* shared_ = nullptr;  // while rows are shared out
  uint64_t rows_ = 0;
  uint64_t job_ = 0;          // its fingerprint
  uint64_t done_before_ = 0;  // rows that earlier starts finished
  TimePoint began_, reported_;
  std::optional<int64_t> tokens_;  // of this start
  double seconds_ = 0.0;
};

}  // namespace lockstep::launcher
