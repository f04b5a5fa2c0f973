#include "launcher/batch/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <thread>
#include <utility>

#include "launcher/batch/job_facts.h"
#include "launcher/ranks/rank_setup.h"
#include "launcher/ranks/serving_spec.h"

namespace lockstep::launcher {
namespace {

constexpr const char* kCapacity = "capacity";  // notes of a journal
constexpr const char* kUnixTime = "unix time";

/// How long the process that had the journal before may take to be gone: it may just have been killed.
constexpr double kPatience_s = 5.0;
constexpr auto kBetweenTries = std::chrono::milliseconds(50);

Result<std::unique_ptr<journal::Journal>> open_journal(const std::filesystem::path& folder, const Clock& clock) {
  const Deadline limit(clock, duration_of(kPatience_s));
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

/// Tokens that a slot must hold: --max-seq-len, or what the longest row wants. Rows that cannot run do not count.
Result<int64_t> capacity_of(const GenerateCommand& command, const checkpoint::ModelSpec& spec, Batch& batch) {
  LOCKSTEP_TRY(const std::optional<int64_t> asked, asked_capacity(command, spec));
  if (asked) return *asked;
  const std::optional<int64_t> most = longest_sequence(spec);
  int64_t wanted = 1;
  for (size_t row = 0; row < batch.jobs.size(); ++row) {
    LOCKSTEP_TRY(const JobRow job, batch.jobs.read(row));
    const auto prompt = batch.requests->prompt(job);
    if (!prompt.has_value() || (most && longer_length(prompt.value()) > *most)) continue;
    wanted = std::max(wanted, batch.requests->wanted_capacity(job, prompt.value()));
  }
  return most ? std::min(wanted, *most) : wanted;
}

/// What the first start of a job finds out; later ones must not differ.
struct FirstStart {
  int64_t capacity = 1;
  int64_t unix_time = 0;
};

Result<FirstStart> first_start(const GenerateCommand& command, const checkpoint::ModelSpec& spec, Batch& batch) {
  FirstStart start{.unix_time = std::time(nullptr)};
  batch.requests->set_time(start.unix_time);
  LOCKSTEP_TRY(start.capacity, capacity_of(command, spec, batch));
  return start;
}

/// Goes on with the journal's job, or makes it this one.
Result<FirstStart> enter_journal(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                                 journal::Journal& journal, Batch& batch) {
  LOCKSTEP_TRY(journal::JobDescription job, describe_job(command, spec, batch.jobs));
  if (journal.dropped_bytes() > 0) {
    batch.notes.push_back(
        fmt::format("the journal ends with {} bytes of a record that was not written whole: its rows "
                    "are done again",
                    journal.dropped_bytes()));
  }
  if (journal.job()) {
    LOCKSTEP_TRY_VOID(journal::check_same_job(*journal.job(), job));
    const auto capacity = number_of(journal.job()->note(kCapacity)), time = number_of(journal.job()->note(kUnixTime));
    if (capacity && time && *capacity >= 1) {
      batch.requests->set_time(*time);
      return FirstStart{*capacity, *time};
    }
    return Error{ErrorKind::kInvalidArgument,
                 "[launcher] --journal: found no capacity or time of the first start, expected both; begin a new "
                 "journal in another folder"};
  }
  LOCKSTEP_TRY(const FirstStart start, first_start(command, spec, batch));
  job.notes = {{kCapacity, fmt::format("{}", start.capacity)}, {kUnixTime, fmt::format("{}", start.unix_time)}};
  LOCKSTEP_TRY_VOID(journal.begin(job));
  return start;
}

Result<FirstStart> open_results(const GenerateCommand& command, const checkpoint::ModelSpec& spec, const Clock& clock,
                                Batch& batch) {
  if (!command.journal) {
    batch.results = keep_in_memory();
    return first_start(command, spec, batch);
  }
  LOCKSTEP_TRY(std::unique_ptr<journal::Journal> journal, open_journal(*command.journal, clock));
  LOCKSTEP_TRY(const FirstStart start, enter_journal(command, spec, *journal, batch));
  if (journal->done() > 0) {
    batch.notes.push_back(fmt::format("{} of {} rows are in the journal", journal->done(), batch.jobs.size()));
  }
  batch.results = keep_in_journal(std::move(journal));
  return start;
}

}  // namespace

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
  if (is_batch && command.observe.is_on()) {
    return contradiction("--profile, --trace or --metrics with --prompts-file", "them with other prompts, or in bench");
  }
  return ok();
}

Result<std::unique_ptr<Batch>> prepare_batch(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                                             const Clock& clock) {
  auto batch = std::make_unique<Batch>();
  LOCKSTEP_TRY(batch->jobs, JobsFile::open(*command.prompts.jobs_file, command.chat ? ChatRows::kYes : ChatRows::kNo));
  LOCKSTEP_TRY(batch->requests, RowRequests::make(command, spec, clock, batch->jobs.has_text()));
  const generation::GenerationConfig& config = batch->requests->config();
  JobSizes sizes;
  LOCKSTEP_TRY_VOID(plan_drafts(command, config, host_options_of(config), sizes));
  sizes.wants_logits = batch->requests->by_host();
  LOCKSTEP_TRY(const FirstStart start, open_results(command, spec, clock, *batch));
  sizes.capacity = start.capacity;
  batch->done_before = batch->results->done();
  const auto left = static_cast<int64_t>(batch->jobs.size() - batch->done_before);
  LOCKSTEP_TRY(const int64_t widest, batch->requests->widest());
  LOCKSTEP_TRY(sizes.slots, slots_of(command, left * static_cast<int64_t>(batch->requests->answers_of_row()), widest));
  if (left == 0) sizes.slots = 0;
  batch->sizes = sizes;
  return batch;
}

}  // namespace lockstep::launcher
