#include "launcher/batch/batch_job.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "launcher/batch/job_facts.h"
#include "launcher/batch/job_record.h"
#include "launcher/batch/row_work.h"
#include "launcher/generate/generation.h"
#include "launcher/process/launch_siblings.h"
#include "launcher/rows/row_client.h"
#include "launcher/rows/row_server.h"
#include "runtime/core/secret.h"

namespace lockstep::launcher {
namespace {

/// The whole job on the ranks of this group.
class BatchJob final : public Job {
 public:
  BatchJob(const GenerateCommand& command, const Log& log, ProgressLine& progress)
      : command_(command), log_(log), record_(command, log, progress) {}

  Result<std::optional<EngineOptions>> prepare(const Model& model) override {
    LOCKSTEP_TRY(work_, RowWork::open(command_, model));
    LOCKSTEP_TRY_VOID(record_.open(model, *work_));
    const RowSetup setup = record_.setup();
    LOCKSTEP_TRY(EngineOptions options, work_->options(model, setup.capacity, setup.rows));
    if (setup.rows == 0) return std::optional<EngineOptions>();
    slots_ = options.slots.value_or(1);
    return std::optional(std::move(options));
  }

  Result<std::string> share(Group& group) override {
    if (record_.setup().rows == 0) return std::string();
    begin(group);
    LOCKSTEP_TRY(server_, RowServer::open(*rows_, record_.setup(), rows_at_once(slots_),
                                          {.host = address_on_launch(group), .secret = random_secret()},
                                          [this](const std::string& line) { log_.warning("{}", line); }));
    return to_text(server_->address());
  }

  Result<void> run(Group& group, Engine& engine) override {
    if (rows_ == nullptr) begin(group);
    const size_t most = server_ != nullptr ? rows_at_once(slots_) : std::numeric_limits<size_t>::max();
    WholeJob whole(*rows_, /*group=*/0, most);
    const Result<void> answered = work_->run(group, engine, whole);
    const bool all_gone = server_ == nullptr || server_->wait_gone();
    LOCKSTEP_TRY_VOID(record_.finish(*rows_));
    if (!answered.has_value() || (all_gone && !rows_->is_open())) return answered;
    return Error{ErrorKind::kPeerLost,
                 "[launcher] a replica was lost with the last rows: found rows without answers, expected none; start "
                 "the job again with its --journal"};
  }

  Result<void> report(const Engine*) override { return record_.report(*work_); }

 private:
  void begin(Group& group) {
    rows_ = record_.share(slots_ * group.replicas(), [&group](const Error& error) { group.fail(error); });
  }

  const GenerateCommand& command_;
  const Log& log_;
  JobRecord record_;
  std::optional<RowWork> work_;
  int64_t slots_ = 1;
  std::unique_ptr<SharedRows> rows_;
  std::unique_ptr<RowServer> server_;  // for other groups; null: there are none
};

/// A part of a job, whose rows another process shares out and records.
class PartOfJob final : public Job {
 public:
  PartOfJob(const GenerateCommand& command, RowAddress address, size_t group)
      : command_(command), address_(std::move(address)), group_(group) {}

  Result<std::optional<EngineOptions>> prepare(const Model& model) override {
    LOCKSTEP_TRY(work_, RowWork::open(command_, model));
    LOCKSTEP_TRY(rows_, RowClient::connect(address_, group_));
    const RowSetup& setup = rows_->setup();
    LOCKSTEP_TRY(const journal::JobDescription job, describe_job(command_, model, work_->jobs()));
    if (fingerprint_of(job) != setup.job) return other_job();
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
  /// A file changed since the job began, or is another one on this host; or the processors differ.
  Error other_job() const {
    return {ErrorKind::kFailedPrecondition,
            fmt::format("[launcher] cannot take part in the job: found another jobs file ({}), model or "
                        "--instruction-set than the process that shares the rows out, expected the same on every host; "
                        "leave the files alone, give every host the same, then start again",
                        command_.prompts.jobs_file->string())};
  }

  const GenerateCommand& command_;
  const RowAddress address_;
  const size_t group_;
  std::optional<RowWork> work_;
  std::unique_ptr<RowClient> rows_;
};

}  // namespace

std::unique_ptr<Job> make_batch_job(const GenerateCommand& command, const Log& log, ProgressLine& progress) {
  const RowsFrom& from = command.rows_from;
  if (from.socket.empty()) return std::make_unique<BatchJob>(command, log, progress);
  return std::make_unique<PartOfJob>(command, RowAddress{.socket = from.socket}, from.group);
}

std::unique_ptr<Job> make_part_of_job(const GenerateCommand& command, const std::string& shared, size_t group) {
  return std::make_unique<PartOfJob>(command, parse_row_address(shared), group);
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
