// What rank 0 does for `generate`: it reads the rows, submits them and writes what was answered. Everything between,
// the group, the model and the engine, is the same for every job (commands/generate.cpp).
#pragma once

#include <memory>
#include <optional>

#include "launcher/generate/generate_command.h"
#include "launcher/process/progress_line.h"
#include "lockstep/engine.h"
#include "runtime/core/log.h"

namespace lockstep::launcher {

/// Used by one thread, in this order.
class Job {
 public:
  virtual ~Job() = default;

  /// Reads the rows and checks them against `model`, before weights are read; the options of the engine that they need.
  /// Empty: every row is answered already. `model` outlives the job.
  virtual Result<std::optional<EngineOptions>> prepare(const Model& model) = 0;

  /// Submits the rows, waits for their answers and closes the engine. @collective @blocking
  virtual Result<void> run(Group& group, Engine& engine) = 0;

  /// Writes the answers. `engine` is closed, or null where every row was answered already.
  virtual Result<void> report(const Engine* engine) = 0;
};

/// The prompts of the command line and of small files. The command, the log and the line outlive the job.
std::unique_ptr<Job> make_prompt_job(const GenerateCommand& command, const Log& log, ProgressLine& progress);

}  // namespace lockstep::launcher
