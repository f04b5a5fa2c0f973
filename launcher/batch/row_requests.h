// From a row of a jobs file to requests of the session: its prompt as ids, its own settings on top of the job's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/batch/jobs_file.h"
#include "launcher/cli/command_line.h"
#include "launcher/generate/requests.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/clock.h"
#include "runtime/generation/generation_config.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::launcher {

/// A row that is ready to run.
struct PreparedRow {
  std::vector<JobRequest> requests;  // their ids count from row · answers of a row on
  std::vector<std::string> stop_strings;
};

/// What the rows of a batch job have in common. Command and clock are borrowed.
class RowRequests {
 public:
  /// `unix_time` is what chat templates take for now. Fails with `kInvalidArgument` for options that a batch job cannot
  /// have, and as the readers of tokenizer, template and generation options do.
  static Result<std::unique_ptr<RowRequests>> make(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                                                   const Clock& clock, bool needs_tokenizer);

  const generation::GenerationConfig& config() const { return config_; }
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }
  const std::vector<std::string>& warnings() const { return warnings_; }
  bool by_host() const { return by_host_; }
  size_t answers_of_row() const { return static_cast<size_t>(config_.num_return_sequences); }
  /// Slots that one request takes at most.
  Result<int64_t> widest() const;

  /// What chat templates take for now, in seconds since 1970. Call it before `prompt`.
  void set_time(int64_t unix_time) { unix_time_ = unix_time; }

  /// The row as ids. Fails when this row cannot be one.
  Result<Prompt> prompt(const JobRow& row) const;

  /// Tokens that a slot must hold for `prompt`, whatever the model can.
  int64_t wanted_capacity(const JobRow& row, const Prompt& prompt) const;

  /// The requests of row number `index`. Fails when this row does not fit or its settings are wrong.
  Result<PreparedRow> prepare(size_t index, const JobRow& row, int64_t capacity) const;

 private:
  RowRequests(const GenerateCommand& command, const checkpoint::ModelSpec& spec, const Clock& clock)
      : command_(command), spec_(spec), clock_(clock) {}

  Result<void> load(bool needs_tokenizer);
  Result<void> check_options() const;
  Result<generation::GenerationConfig> config_of(const JobRow& row) const;
  RequestSource source(const generation::GenerationConfig& config) const;
  TokenWish wish(const JobRow& row) const;

  const GenerateCommand& command_;
  const checkpoint::ModelSpec spec_;
  const Clock& clock_;
  generation::GenerationConfig config_;
  std::vector<std::string> warnings_;
  bool by_host_ = false;
  std::unique_ptr<text::Tokenizer> tokenizer_;  // null: rows of ids, and the model has none
  std::optional<text::ModelChat> chat_;
  std::vector<int32_t> negative_;
  int64_t unix_time_ = 0;
};

}  // namespace lockstep::launcher
