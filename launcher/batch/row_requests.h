// Conversion of a batch job's rows to requests: the command's options, overridden by the row's.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/batch/jobs_file.h"
#include "launcher/generate/generate_command.h"
#include "lockstep/engine.h"

namespace lockstep::launcher {

/// Command and model are borrowed.
class RowRequests {
 public:
  /// `needs_tokenizer`: some rows are text. Fails with `kInvalidArgument` for options that a batch job cannot have, and
  /// as the readers of tokenizer and generation options.
  static Result<RowRequests> make(const GenerateCommand& command, const Model& model, bool needs_tokenizer);

  const GenerationConfig& config() const { return config_; }

  /// The current time for chat templates, in seconds since 1970. Call it before `prepare`.
  void set_time(int64_t unix_time) { unix_time_ = unix_time; }

  /// Makes the request of row number `index`. Fails when the row cannot be a request.
  Result<Request> prepare(size_t index, const JobRow& row) const;

 private:
  RowRequests(const GenerateCommand& command, const Model& model) : command_(&command), model_(&model) {}

  Result<void> load(bool needs_tokenizer);
  Result<Prompt> prompt_of(const JobRow& row) const;
  Result<GenerationConfig> config_of(const JobRow& row) const;

  const GenerateCommand* command_;
  const Model* model_;
  GenerationConfig config_;
  std::vector<int32_t> negative_;
  int64_t unix_time_ = 0;
};

}  // namespace lockstep::launcher
