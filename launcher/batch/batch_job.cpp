#include "launcher/batch/batch_job.h"

#include <utility>

#include "launcher/batch/job_record.h"
#include "launcher/batch/row_work.h"
#include "launcher/generate/generation.h"
#include "launcher/rows/row_client.h"

namespace lockstep::launcher {
namespace {

/// The whole job on the ranks of this group.
class BatchJob final : public Job {
 public:
  BatchJob(const GenerateCommand& command, const Log& log, ProgressLine& progress)
      : command_(command), record_(command, log, progress) {}

  Result<std::optional<EngineOptions>> prepare(const Model& model) override {
    LOCKSTEP_TRY(work_, RowWork::open(command_, model));
    LOCKSTEP_TRY_VOID(record_.open(model, *work_));
    const RowSetup setup = record_.setup();
    LOCKSTEP_TRY(EngineOptions options, work_->options(model, setup.capacity, setup.rows));
    if (setup.rows == 0) return std::optional<EngineOptions>();
    slots_ = options.slots.value_or(1);
    return std::optional(std::move(options));
  }

  Result<void> run(Group& group, Engine& engine) override {
    const auto rows = record_.share(slots_, [&group](const Error& error) { group.fail(error); });
    WholeJob whole(*rows, /*group=*/0, /*most=*/work_->jobs().size());
    const Result<void> answered = work_->run(group, engine, whole);
    LOCKSTEP_TRY_VOID(record_.finish(*rows));
    return answered;
  }

  Result<void> report(const Engine*) override { return record_.report(*work_); }

 private:
  const GenerateCommand& command_;
  JobRecord record_;
  std::optional<RowWork> work_;
  int64_t slots_ = 1;
};

/// A part of a job, whose rows another process shares out and records.
class PartOfJob final : public Job {
 public:
  explicit PartOfJob(const GenerateCommand& command) : command_(command) {}

  Result<std::optional<EngineOptions>> prepare(const Model& model) override {
    LOCKSTEP_TRY(work_, RowWork::open(command_, model));
    LOCKSTEP_TRY(rows_, RowClient::connect({.socket = command_.rows_from.socket}, command_.rows_from.group));
    const RowSetup& setup = rows_->setup();
    work_->requests().set_time(setup.unix_time);
    LOCKSTEP_TRY(EngineOptions options, work_->options(model, setup.capacity, setup.rows));
    return std::optional(std::move(options));
  }

  Result<void> run(Group& group, Engine& engine) override {
    LOCKSTEP_TRY_VOID(work_->run(group, engine, *rows_));
    return rows_->status();
  }

  Result<void> report(const Engine*) override { return ok(); }

 private:
  const GenerateCommand& command_;
  std::optional<RowWork> work_;
  std::unique_ptr<RowClient> rows_;
};

}  // namespace

std::unique_ptr<Job> make_batch_job(const GenerateCommand& command, const Log& log, ProgressLine& progress) {
  if (!command.rows_from.socket.empty()) return std::make_unique<PartOfJob>(command);
  return std::make_unique<BatchJob>(command, log, progress);
}

Result<void> check_batch_options(const GenerateCommand& command) {
  const bool is_batch = command.prompts.jobs_file.has_value();
  if (!is_batch && command.journal) return contradiction("--journal without --prompts-file", "both");
  if (!is_batch && command.replicas > 1) {
    return contradiction("--replicas without --prompts-file", "both: replicas share out the rows of a batch job");
  }
  const ObserveOptions& observe = command.engine.observe;
  if (command.replicas > 1 && (observe.is_on() || command.run.flight_recorder)) {
    return contradiction("--replicas with --profile, --trace, --metrics or --flight-recorder",
                         "records of one group of ranks");
  }
  if (!is_batch && command.output) {
    return contradiction("--output without --prompts-file", "--json for other prompts");
  }
  if (is_batch && command.json) return contradiction("--json with --prompts-file", "--output, a line a row");
  if (is_batch && (command.output_logits || command.output_scores)) {
    return contradiction("--output-logits or --output-scores with --prompts-file",
                         "tokens and log-probabilities alone");
  }
  if (command.journal || command.replicas > 1) LOCKSTEP_TRY_VOID(journal::available());
  return ok();
}

}  // namespace lockstep::launcher
