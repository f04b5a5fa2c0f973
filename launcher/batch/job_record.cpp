#include "launcher/batch/job_record.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <thread>
#include <utility>

#include "launcher/batch/job_facts.h"
#include "launcher/batch/result_lines.h"

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

Result<void> add_rows(RowWork& work, Sizing& sizing) {
  for (size_t row = 0; row < work.jobs().size(); ++row) {
    LOCKSTEP_TRY(const JobRow job, work.jobs().read(row));
    const auto request = work.requests().prepare(row, job);
    if (request.has_value()) LOCKSTEP_TRY_VOID(sizing.add(request.value().prompt, request.value().config));
  }
  return ok();
}

/// Limit of rows handed out and not recorded: enough to refill slots while other rows are written.
size_t rows_under_way(int64_t slots) { return 64 + 4 * static_cast<size_t>(slots); }

}  // namespace

/// The capacity for the longest row. Rows that cannot run are ignored.
Result<JobRecord::FirstStart> JobRecord::first_start(const Model& model, RowWork& work) {
  LOCKSTEP_TRY_VOID(check_capacity(model, command_.engine.capacity));
  FirstStart start{.unix_time = std::time(nullptr)};
  work.requests().set_time(start.unix_time);
  Sizing sizing(model, command_.engine);
  if (!command_.engine.capacity) LOCKSTEP_TRY_VOID(add_rows(work, sizing));
  LOCKSTEP_TRY(const EngineOptions sized, sizing.options());
  start.capacity = sized.capacity.value_or(1);
  return start;
}

/// Continues the job of the journal, or starts the journal with this job.
Result<JobRecord::FirstStart> JobRecord::enter_journal(const Model& model, RowWork& work, journal::JobDescription job,
                                                       journal::Journal& journal) {
  if (journal.dropped_bytes() > 0) {
    log_.info("the journal ends with {} bytes of a record that was not written whole: its rows will be repeated",
              journal.dropped_bytes());
  }
  if (journal.job()) {
    LOCKSTEP_TRY_VOID(journal::check_same_job(*journal.job(), job));
    const auto capacity = number_of(journal.job()->note(kCapacity)), time = number_of(journal.job()->note(kUnixTime));
    if (capacity && time && *capacity >= 1) {
      work.requests().set_time(*time);
      return FirstStart{*capacity, *time};
    }
    return Error{ErrorKind::kInvalidArgument,
                 "[launcher] --journal: found no capacity or time of the first start, expected both; begin a new "
                 "journal in another folder"};
  }
  LOCKSTEP_TRY(const FirstStart start, first_start(model, work));
  job.notes = {{kCapacity, fmt::format("{}", start.capacity)}, {kUnixTime, fmt::format("{}", start.unix_time)}};
  LOCKSTEP_TRY_VOID(journal.begin(job));
  return start;
}

Result<JobRecord::FirstStart> JobRecord::open_results(const Model& model, RowWork& work, journal::JobDescription job) {
  if (!command_.journal) {
    results_ = keep_in_memory();
    return first_start(model, work);
  }
  LOCKSTEP_TRY(std::unique_ptr<journal::Journal> journal, open_journal(*command_.journal, clock_));
  LOCKSTEP_TRY(const FirstStart start, enter_journal(model, work, std::move(job), *journal));
  if (journal->done() > 0) log_.info("{} of {} rows are in the journal", journal->done(), work.jobs().size());
  results_ = keep_in_journal(std::move(journal));
  return start;
}

Result<void> JobRecord::open(const Model& model, RowWork& work) {
  LOCKSTEP_TRY(journal::JobDescription job, describe_job(command_, model, work.jobs()));
  job_ = fingerprint_of(job);
  LOCKSTEP_TRY(start_, open_results(model, work, std::move(job)));
  rows_ = work.jobs().size();
  done_before_ = results_->done();
  return ok();
}

std::unique_ptr<SharedRows> JobRecord::share(int64_t slots, std::function<void(const Error&)> on_failure) {
  began_ = reported_ = clock_.now();
  progress_.show_rows(done_before_, rows_, /*tokens=*/0);
  auto shared = std::make_unique<SharedRows>(*results_, rows_, rows_under_way(slots), std::move(on_failure),
                                             [this](uint64_t done) { report_progress(done); });
  shared_ = shared.get();
  return shared;
}

Result<void> JobRecord::finish(SharedRows& rows) {
  LOCKSTEP_TRY_VOID(rows.finish());
  tokens_ = rows.tokens();
  seconds_ = to_seconds(clock_.now() - began_);
  return ok();
}

/// Updates the progress line if it is shown; otherwise logs a line every few seconds.
void JobRecord::report_progress(uint64_t done) {
  if (progress_.is_shown()) return progress_.show_rows(done, rows_, shared_ != nullptr ? shared_->tokens() : 0);
  const TimePoint now = clock_.now();
  if (now - reported_ < kBetweenReports) return;
  reported_ = now;
  log_.info("{} of {} rows", done, rows_);
}

Result<void> JobRecord::report(RowWork& work) {
  progress_.close();
  LOCKSTEP_TRY(const WrittenRows written, write_results(command_.output, work.jobs(), *results_));
  const std::string how_fast = tokens_ ? fmt::format("; {} tokens in {:.1f} s", *tokens_, seconds_) : "";
  log_.info("{} rows{}: {} answered, {} failed on their own; {} of them were done before{}", written.rows,
            command_.output ? fmt::format(" in {}", command_.output->string()) : "", written.rows - written.failed,
            written.failed, done_before_, how_fast);
  return ok();
}

}  // namespace lockstep::launcher
