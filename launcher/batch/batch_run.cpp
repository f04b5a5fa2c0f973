#include "launcher/batch/batch_run.h"

#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "launcher/batch/batch.h"
#include "launcher/batch/batch_sink.h"
#include "launcher/batch/result_lines.h"
#include "launcher/batch/row_recorder.h"
#include "launcher/generate/rank_plan.h"
#include "launcher/ranks/guard.h"

namespace lockstep::launcher {
namespace {

constexpr double kBetweenReports_s = 10.0;

/// Rows that are in the session or wait to be recorded: enough that slots are refilled while others are written.
size_t rows_under_way(const Batch& batch) { return 64 + 4 * static_cast<size_t>(batch.sizes.slots); }

/// Rank 0's threads around a session: one that feeds rows, one that records them.
class BatchFlow {
 public:
  /// Everything is borrowed and outlives the flow.
  BatchFlow(Batch& batch, const RankContext& context)
      : batch_(batch),
        context_(context),
        recorder_(
            *batch.results, [this](const Error& error) { fail(error); }, [this](uint64_t done) { report(done); }),
        sink_(context.clock,
              {.tokenizer = batch.requests->tokenizer(),
               .answers_of_row = batch.requests->answers_of_row(),
               .as_made = batch.requests->config().num_beams == 1},
              recorder_) {}
  ~BatchFlow() { stop_feeding(); }
  BatchFlow(const BatchFlow&) = delete;
  BatchFlow& operator=(const BatchFlow&) = delete;

  void start(actors::Session& session) {
    session_ = &session;
    started_ = context_.clock.now();
    feeder_ = std::thread([this] { feed(); });
  }

  /// After the session: records what is left of it; the first error of all threads. @blocking
  Result<void> finish(const Result<void>& session_ended) {
    stop_feeding();
    if (session_ended.has_value() && !feeding_error_) put_refused();
    const Result<void> recorded = recorder_.finish();
    if (!recorded.has_value()) return recorded;
    if (feeding_error_) return *feeding_error_;
    return session_ended;
  }

  int64_t tokens() const { return sink_.tokens(); }
  double seconds() const { return to_seconds(context_.clock.now() - started_); }

 private:
  void feed();
  Result<void> feed_rows();
  Result<void> feed_row(size_t row);
  void stop_feeding();
  void put_refused();
  void fail(const Error& error);
  void report(uint64_t done);

  Batch& batch_;
  const RankContext& context_;
  RowRecorder recorder_;
  BatchSink sink_;
  actors::Session* session_ = nullptr;
  TimePoint started_, reported_;
  std::thread feeder_;
  std::optional<Error> feeding_error_;  // read when the feeder has ended
};

void BatchFlow::feed() {
  const Result<void> fed = guarded([this] { return feed_rows(); });
  if (fed.has_value()) return session_->finish();
  feeding_error_ = fed.error();
  fail(fed.error());
}

Result<void> BatchFlow::feed_rows() {
  const size_t limit = rows_under_way(batch_);
  std::vector<size_t> rows;  // the recorder writes results from its first row on
  for (size_t row = 0; row < batch_.jobs.size(); ++row) {
    if (!batch_.results->is_done(row)) rows.push_back(row);
  }
  for (const size_t row : rows) {
    if (!recorder_.wait_for_room(limit)) return ok();  // who stopped it says why
    LOCKSTEP_TRY_VOID(feed_row(row));
  }
  return ok();
}

Result<void> BatchFlow::feed_row(size_t row) {
  LOCKSTEP_TRY(const JobRow job, batch_.jobs.read(row));
  auto prepared = batch_.requests->prepare(row, job, batch_.sizes.capacity);
  if (!prepared.has_value()) {
    recorder_.put({.row = row, .answers = {}, .error = prepared.error().message});
    return ok();
  }
  sink_.open(row, prepared.value());
  for (JobRequest& made : prepared.value().requests) session_->submit(std::move(made.request), sink_);
  return ok();
}

void BatchFlow::stop_feeding() {
  recorder_.stop();
  if (feeder_.joinable()) feeder_.join();
}

/// The session ended well, so what it refused is those rows' own fault.
void BatchFlow::put_refused() {
  for (journal::RowResult& row : sink_.refused()) recorder_.put(std::move(row));
}

void BatchFlow::fail(const Error& error) {
  if (session_ != nullptr) session_->fail(error);
}

void BatchFlow::report(uint64_t done) {
  const TimePoint now = context_.clock.now();
  if (to_seconds(now - std::max(reported_, started_)) < kBetweenReports_s) return;
  reported_ = now;
  context_.log.info("{} of {} rows", done, batch_.jobs.size());
}

/// Writes the results of all rows and says how many there are.
Result<void> write_out(const GenerateCommand& command, const RankContext& context, const Batch& batch,
                       const std::string& how_fast) {
  LOCKSTEP_TRY(const WrittenRows written, write_results(command.output, batch.jobs, *batch.results));
  context.log.info("{} rows{}: {} answered, {} failed on their own; {} of them were done before{}", written.rows,
                   command.output ? fmt::format(" in {}", command.output->string()) : "", written.rows - written.failed,
                   written.failed, batch.done_before, how_fast);
  return ok();
}

/// Runs the rows that are left. @collective @blocking
Result<void> run_rows(const RankContext& context, const Plan& plan, RankMonitor& monitor, actors::Session& session,
                      const LoadedModel& loaded, BatchFlow* flow) {
  const Result<void> ended =
      run_session(context, plan, monitor, session, *loaded.engine, [&] { flow->start(session); });
  return flow == nullptr ? ended : flow->finish(ended);
}

}  // namespace

Result<void> run_batch_rank(const GenerateCommand& command, RankContext context, RankMonitor& monitor) {
  std::unique_ptr<Batch> batch;  // on rank 0
  context.phases.enter("plan");
  const auto prepare = [&](const checkpoint::ModelSpec& spec) -> Result<JobSizes> {
    LOCKSTEP_TRY(batch, prepare_batch(command, spec, context.clock));
    return batch->sizes;
  };
  LOCKSTEP_TRY(const std::optional<Plan> plan, make_plan(command, context, prepare));
  if (batch) {
    for (const std::string& warning : batch->requests->warnings()) context.log.warning("{}", warning);
    for (const std::string& note : batch->notes) context.log.info("{}", note);
  }
  if (!plan) return batch ? write_out(command, context, *batch, "") : Result<void>(ok());

  context.phases.enter("connect");
  LOCKSTEP_TRY(const ChosenCommunicator chosen, connect(context, *plan));
  device::Communicator* communicator = chosen.communicator.get();
  log_plan(context, *plan, chosen);

  LOCKSTEP_TRY(const LoadedModel loaded, load_model(context, *plan, communicator));

  context.phases.enter("session");
  std::unique_ptr<BatchFlow> flow = batch ? std::make_unique<BatchFlow>(*batch, context) : nullptr;
  std::unique_ptr<actors::Session> own_session;
  LOCKSTEP_TRY(actors::Session * session, open_session(context, own_session));
  context.phases.enter("run");
  if (batch) context.log.info("{}", phases_line(context.phases));
  LOCKSTEP_TRY_VOID(run_rows(context, *plan, monitor, *session, loaded, flow.get()));

  context.phases.enter("report");
  if (!batch) return ok();
  return write_out(command, context, *batch, fmt::format("; {} tokens in {:.1f} s", flow->tokens(), flow->seconds()));
}

}  // namespace lockstep::launcher
