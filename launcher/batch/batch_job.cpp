#include "launcher/batch/batch_job.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>

#include "launcher/batch/job_facts.h"
#include "launcher/batch/jobs_file.h"
#include "launcher/batch/result_lines.h"
#include "launcher/batch/row_recorder.h"
#include "launcher/batch/row_requests.h"
#include "launcher/batch/row_results.h"
#include "launcher/generate/generation.h"
#include "runtime/core/clock.h"

namespace lockstep::launcher {
namespace {

constexpr const char* kCapacity = "capacity";  // keys of a journal's notes
constexpr const char* kUnixTime = "unix time";

/// How long the journal's previous process may take to end: it may just have been killed.
constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kBetweenTries = std::chrono::milliseconds(50);
constexpr auto kBetweenReports = std::chrono::seconds(10);

Result<std::unique_ptr<journal::Journal>> open_journal(const std::filesystem::path& folder, const Clock& clock) {
  const Deadline limit(clock, kPatience);
  while (true) {
    auto journal = journal::Journal::open(folder);
    const bool in_use = !journal.has_value() && journal.error().kind == ErrorKind::kFailedPrecondition;
    if (!in_use || limit.has_passed()) return journal;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

std::optional<int64_t> number_of(const std::optional<std::string>& note) {
  int64_t number = 0;
  if (!note || std::from_chars(note->data(), note->data() + note->size(), number).ec != std::errc()) return {};
  return number;
}

/// Rejects what the engine would reject, before a journal starts with it.
Result<void> check_capacity(const Model& model, std::optional<int64_t> capacity) {
  const std::optional<int64_t> most = model.longest_sequence();
  if (!capacity || !most || *capacity <= *most) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] --max-seq-len: found {}, expected at most {} (max_position_embeddings of the "
                           "model); lower it",
                           *capacity, *most)};
}

/// Limit of rows submitted and not recorded: enough to refill slots while other rows are written.
size_t rows_under_way(int64_t slots) { return 64 + 4 * static_cast<size_t>(slots); }

class BatchJob final : public Job {
 public:
  BatchJob(const GenerateCommand& command, const Log& log, ProgressLine& progress)
      : command_(command), log_(log), progress_(progress) {}

  Result<std::optional<EngineOptions>> prepare(const Model& model) override;
  Result<void> run(Group& group, Engine& engine) override;
  Result<void> report(const Engine* engine) override;

 private:
  /// Results of a job's first start; later starts must use the same.
  struct FirstStart {
    int64_t capacity = 1;
    int64_t unix_time = 0;
  };

  Result<FirstStart> first_start(const Model& model);
  Result<FirstStart> enter_journal(const Model& model, journal::Journal& journal);
  Result<FirstStart> open_results(const Model& model);
  Result<void> add_rows(Sizing& sizing);
  std::vector<size_t> rows_to_do() const;
  Result<void> feed(Group& group, Engine& engine, RowRecorder& recorder);
  Result<void> feed_row(size_t row, Engine& engine, RowRecorder& recorder);
  void take(size_t row, RequestHandle& handle, RowRecorder& recorder);
  void refuse(size_t row, const Error& error, RowRecorder& recorder);
  void report_progress(uint64_t done, const Engine& engine);

  const GenerateCommand& command_;
  const Log& log_;
  ProgressLine& progress_;
  const SteadyClock clock_;
  std::optional<JobsFile> jobs_;
  std::optional<RowRequests> requests_;
  std::unique_ptr<RowResults> results_;
  int64_t slots_ = 1;
  uint64_t done_before_ = 0;  // rows that earlier starts finished
  TimePoint started_, reported_;
  double seconds_ = 0.0;
  std::mutex mutex_;                         // guards the fields below
  std::vector<journal::RowResult> refused_;  // by the engine
};

Result<void> BatchJob::add_rows(Sizing& sizing) {
  for (size_t row = 0; row < jobs_->size(); ++row) {
    LOCKSTEP_TRY(const JobRow job, jobs_->read(row));
    const auto request = requests_->prepare(row, job);
    if (request.has_value()) LOCKSTEP_TRY_VOID(sizing.add(request.value().prompt, request.value().config));
  }
  return ok();
}

/// The capacity for the longest row. Rows that cannot run are ignored.
Result<BatchJob::FirstStart> BatchJob::first_start(const Model& model) {
  LOCKSTEP_TRY_VOID(check_capacity(model, command_.engine.capacity));
  FirstStart start{.unix_time = std::time(nullptr)};
  requests_->set_time(start.unix_time);
  Sizing sizing(model, command_.engine);
  if (!command_.engine.capacity) LOCKSTEP_TRY_VOID(add_rows(sizing));
  LOCKSTEP_TRY(const EngineOptions sized, sizing.options());
  start.capacity = sized.capacity.value_or(1);
  return start;
}

/// Continues the job of the journal, or starts the journal with this job.
Result<BatchJob::FirstStart> BatchJob::enter_journal(const Model& model, journal::Journal& journal) {
  LOCKSTEP_TRY(journal::JobDescription job, describe_job(command_, model, *jobs_));
  if (journal.dropped_bytes() > 0) {
    log_.info("the journal ends with {} bytes of a record that was not written whole: its rows will be repeated",
              journal.dropped_bytes());
  }
  if (journal.job()) {
    LOCKSTEP_TRY_VOID(journal::check_same_job(*journal.job(), job));
    const auto capacity = number_of(journal.job()->note(kCapacity)), time = number_of(journal.job()->note(kUnixTime));
    if (capacity && time && *capacity >= 1) {
      requests_->set_time(*time);
      return FirstStart{*capacity, *time};
    }
    return Error{ErrorKind::kInvalidArgument,
                 "[launcher] --journal: found no capacity or time of the first start, expected both; begin a new "
                 "journal in another folder"};
  }
  LOCKSTEP_TRY(const FirstStart start, first_start(model));
  job.notes = {{kCapacity, fmt::format("{}", start.capacity)}, {kUnixTime, fmt::format("{}", start.unix_time)}};
  LOCKSTEP_TRY_VOID(journal.begin(job));
  return start;
}

Result<BatchJob::FirstStart> BatchJob::open_results(const Model& model) {
  if (!command_.journal) {
    results_ = keep_in_memory();
    return first_start(model);
  }
  LOCKSTEP_TRY(std::unique_ptr<journal::Journal> journal, open_journal(*command_.journal, clock_));
  LOCKSTEP_TRY(const FirstStart start, enter_journal(model, *journal));
  if (journal->done() > 0) log_.info("{} of {} rows are in the journal", journal->done(), jobs_->size());
  results_ = keep_in_journal(std::move(journal));
  return start;
}

Result<std::optional<EngineOptions>> BatchJob::prepare(const Model& model) {
  LOCKSTEP_TRY(jobs_, JobsFile::open(*command_.prompts.jobs_file, command_.chat ? ChatRows::kYes : ChatRows::kNo));
  LOCKSTEP_TRY(requests_, RowRequests::make(command_, model, jobs_->has_text()));
  LOCKSTEP_TRY(const FirstStart start, open_results(model));
  done_before_ = results_->done();
  const uint64_t left = jobs_->size() - done_before_;
  EngineOptions options = engine_options(command_, requests_->config());
  options.capacity = start.capacity;
  Sizing sizing(model, options);
  const Prompt any{.ids = {0}};
  for (uint64_t row = 0; row < left; ++row) LOCKSTEP_TRY_VOID(sizing.add(any, requests_->config()));
  LOCKSTEP_TRY(options, sizing.options());
  if (left == 0) return std::optional<EngineOptions>();
  slots_ = options.slots.value_or(1);
  return std::optional(std::move(options));
}

std::vector<size_t> BatchJob::rows_to_do() const {
  std::vector<size_t> rows;  // the recorder writes results from the first row on
  for (size_t row = 0; row < jobs_->size(); ++row) {
    if (!results_->is_done(row)) rows.push_back(row);
  }
  return rows;
}

/// Takes the row's answers, on the engine's delivery thread.
void BatchJob::take(size_t row, RequestHandle& handle, RowRecorder& recorder) {
  journal::RowResult result{.row = row, .answers = {}, .error = {}};
  const auto answers = handle.wait();  // it is done
  if (answers.has_value()) {
    for (const Answer& answer : answers.value()) result.answers.push_back(to_row_answer(answer));
    return recorder.put(std::move(result));
  }
  refuse(row, answers.error(), recorder);
}

/// The cause is decided at the end: the row is invalid, or the group has failed.
void BatchJob::refuse(size_t row, const Error& error, RowRecorder& recorder) {
  {
    std::lock_guard lock(mutex_);
    refused_.push_back({.row = row, .answers = {}, .error = error.message});
  }
  recorder.release();
}

Result<void> BatchJob::feed_row(size_t row, Engine& engine, RowRecorder& recorder) {
  LOCKSTEP_TRY(const JobRow job, jobs_->read(row));
  auto request = requests_->prepare(row, job);
  if (!request.has_value()) {
    recorder.put({.row = row, .answers = {}, .error = request.error().message});
    return ok();
  }
  Result<RequestHandle> handle = engine.submit(std::move(request).value());
  if (!handle.has_value()) {
    refuse(row, handle.error(), recorder);
    return ok();
  }
  handle.value().on_done([this, row, own = handle.value(), &recorder]() mutable { take(row, own, recorder); });
  return ok();
}

Result<void> BatchJob::feed(Group& group, Engine& engine, RowRecorder& recorder) {
  for (const size_t row : rows_to_do()) {
    if (!recorder.wait_for_room(rows_under_way(slots_)) || group.failure()) return ok();  // the group has the error
    LOCKSTEP_TRY_VOID(feed_row(row, engine, recorder));
  }
  return ok();
}

Result<void> BatchJob::run(Group& group, Engine& engine) {
  started_ = reported_ = clock_.now();
  progress_.show_rows(done_before_, jobs_->size(), /*tokens=*/0);
  RowRecorder recorder(
      *results_, [&group](const Error& error) { group.fail(error); },
      [&](uint64_t done) { report_progress(done, engine); });
  const Result<void> fed = feed(group, engine, recorder);
  if (!fed.has_value()) group.fail(fed.error());
  const Result<void> closed = engine.close();
  if (closed.has_value()) {  // the rejected rows are invalid themselves
    for (journal::RowResult& row : refused_) recorder.put(std::move(row));
  }
  const Result<void> recorded = recorder.finish();
  seconds_ = to_seconds(clock_.now() - started_);
  if (!recorded.has_value()) return recorded;
  return closed;
}

/// Updates the progress line if it is shown; otherwise logs a line every few seconds.
void BatchJob::report_progress(uint64_t done, const Engine& engine) {
  if (progress_.is_shown()) return progress_.show_rows(done, jobs_->size(), engine.counters().new_tokens);
  const TimePoint now = clock_.now();
  if (now - reported_ < kBetweenReports) return;
  reported_ = now;
  log_.info("{} of {} rows", done, jobs_->size());
}

Result<void> BatchJob::report(const Engine* engine) {
  progress_.close();
  LOCKSTEP_TRY(const WrittenRows written, write_results(command_.output, *jobs_, *results_));
  std::string how_fast;
  if (engine != nullptr) {
    const int64_t tokens = engine->counters().new_tokens;
    how_fast = fmt::format("; {} tokens in {:.1f} s", tokens, seconds_);
  }
  log_.info("{} rows{}: {} answered, {} failed on their own; {} of them were done before{}", written.rows,
            command_.output ? fmt::format(" in {}", command_.output->string()) : "", written.rows - written.failed,
            written.failed, done_before_, how_fast);
  return ok();
}

}  // namespace

std::unique_ptr<Job> make_batch_job(const GenerateCommand& command, const Log& log, ProgressLine& progress) {
  return std::make_unique<BatchJob>(command, log, progress);
}

Result<void> check_batch_options(const GenerateCommand& command) {
  const bool is_batch = command.prompts.jobs_file.has_value();
  if (!is_batch && command.journal) return contradiction("--journal without --prompts-file", "both");
  if (!is_batch && command.output) {
    return contradiction("--output without --prompts-file", "--json for other prompts");
  }
  if (is_batch && command.json) return contradiction("--json with --prompts-file", "--output, a line a row");
  if (is_batch && (command.output_logits || command.output_scores)) {
    return contradiction("--output-logits or --output-scores with --prompts-file",
                         "tokens and log-probabilities alone");
  }
  if (command.journal) LOCKSTEP_TRY_VOID(journal::available());
  return ok();
}

}  // namespace lockstep::launcher
