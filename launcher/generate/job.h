// The part of `generate` on rank 0: it reads rows, submits them and writes answers. Group, model and engine are the
// same for every job (commands/generate.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launcher/generate/generate_command.h"
#include "launcher/process/progress_line.h"
#include "lockstep/engine.h"
#include "runtime/core/log.h"

namespace lockstep::launcher {

/// Used by one thread; the functions are called in this order.
class Job {
 public:
  virtual ~Job() = default;

  /// Reads the rows, checks them against `model` before weights are read, and returns the engine options that they
  /// need. Empty: every row has its answer already. `model` outlives the job.
  virtual Result<std::optional<EngineOptions>> prepare(const Model& model) = 0;

  /// Where other groups of ranks get their rows of this job; empty: there is none. After `prepare`, in a launch of
  /// several groups. The first one's job alone reads, records and reports.
  virtual Result<std::string> share(Group& group);

  /// Submits the rows, waits for their answers and closes the engine. @collective @blocking
  virtual Result<void> run(Group& group, Engine& engine) = 0;

  /// Writes the answers. `engine` is closed, or null if every row already had its answer.
  virtual Result<void> report(const Engine* engine) = 0;
};

/// The prompts of the command line and of small files. The command, the log and the line outlive the job.
std::unique_ptr<Job> make_prompt_job(const GenerateCommand& command, const Log& log, ProgressLine& progress);

}  // namespace lockstep::launcher
