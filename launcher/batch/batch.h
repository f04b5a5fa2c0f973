// A batch job on rank 0 before weights are read: the rows, what is done of them already, and the static sizes.
//
//   jobs file ──► rows ─────────────────────┐
//   journal ────► results of earlier starts ─┴─► rows to do, sizes        (none to do: the model is not loaded)
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/batch/jobs_file.h"
#include "launcher/batch/row_requests.h"
#include "launcher/batch/row_results.h"
#include "launcher/cli/command_line.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/clock.h"

namespace lockstep::launcher {

/// Everything that only rank 0 needs of a batch job.
struct Batch {
  JobSizes sizes;  // no slots: every row is done
  JobsFile jobs;
  std::unique_ptr<RowRequests> requests;
  std::unique_ptr<RowResults> results;
  uint64_t done_before = 0;        // rows that earlier starts finished
  std::vector<std::string> notes;  // what the user should know of the journal
};

/// Fails with `kInvalidArgument` for options that contradict each other, a jobs file with bad lines and a journal of
/// another job; and as the readers of those files and `journal::Journal::open` do. `command` and `clock` outlive
/// the job.
Result<std::unique_ptr<Batch>> prepare_batch(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                                             const Clock& clock);

/// Refuses options that only one of batch jobs and other jobs can have.
Result<void> check_batch_options(const GenerateCommand& command);

}  // namespace lockstep::launcher
