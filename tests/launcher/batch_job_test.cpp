// Tests of a batch job's engine options, and of jobs refused before the engine opens.
#include "launcher/batch/batch_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "launcher/batch/job_facts.h"
#include "launcher/batch/jobs_file.h"
#include "launcher/rows/row_results.h"
#include "launcher/rows/row_server.h"
#include "launcher/rows/shared_rows.h"
#include "tests/model/tiny_models.h"

namespace lockstep::launcher {
namespace {

using ::testing::HasSubstr;

using Options = std::map<std::string, std::string>;

class BatchJobTest : public ::testing::Test {
 protected:
  GenerateCommand command(std::string_view rows, Options options = {}) const {
    GenerateCommand command;
    command.model.directory = model_.path();
    command.prompts.jobs_file = model_.write("jobs.jsonl", rows);
    command.generation = std::move(options);
    command.generation.emplace("max_new_tokens", "5");
    return command;
  }

  Result<EngineOptions> prepare(const GenerateCommand& command) const {
    LOCKSTEP_TRY(const Model model, Model::open(command.model.directory, command.model.options));
    const Log log;
    const ManualClock clock;
    ProgressLine progress({}, clock);
    LOCKSTEP_TRY(auto options, make_batch_job(command, log, progress)->prepare(model));
    EXPECT_TRUE(options.has_value());
    return std::move(options).value_or(EngineOptions());
  }

  EngineOptions options_of(const GenerateCommand& command) const {
    auto prepared = prepare(command);
    EXPECT_TRUE(prepared.has_value()) << prepared.error().message;
    return prepared.has_value() ? std::move(prepared).value() : EngineOptions();
  }

  void expect_refused(const GenerateCommand& command, const std::string& words,
                      ErrorKind kind = ErrorKind::kInvalidArgument) const {
    const auto prepared = prepare(command);
    ASSERT_FALSE(prepared.has_value()) << words;
    EXPECT_EQ(prepared.error().kind, kind) << prepared.error().message;
    EXPECT_THAT(prepared.error().message, HasSubstr(words));
  }

  model::TinyModel model_{model::kTinyLlama};
};

TEST_F(BatchJobTest, HasRoomForTheLongestRowAndSlotsForAtMostEight) {
  const EngineOptions two = options_of(command("{\"ids\": [4, 5, 6]}\n{\"ids\": [4], \"max_new_tokens\": 20}\n"));
  EXPECT_EQ(two.slots, 2);
  EXPECT_EQ(two.capacity, 1 + 20 - 1);
  EXPECT_EQ(two.choosers, Choosers::kNone);
  EXPECT_EQ(two.drafting, Drafting());
  std::string many;
  for (int i = 0; i < 9; ++i) many += "{\"ids\": [4]}\n";
  EXPECT_EQ(options_of(command(many)).slots, 8);
  EXPECT_EQ(options_of(command("{\"ids\": [4]}\n", {{"num_return_sequences", "3"}, {"do_sample", "true"}})).slots, 3);
}

TEST_F(BatchJobTest, MakesNoRoomForRowsThatCannotRun) {
  const std::string hot = "{\"ids\": [4, 5, 6], \"max_new_tokens\": 30, \"temperature\": \"hot\"}\n";
  EXPECT_EQ(options_of(command("{\"ids\": [4]}\n" + hot)).capacity, 1 + 5 - 1);
  std::string longer = "{\"ids\": [4";
  for (int i = 0; i < 64; ++i) longer += ", 4";
  EXPECT_EQ(options_of(command("{\"ids\": [4]}\n" + longer + "]}\n")).capacity, 1 + 5 - 1);  // 65 of 64 positions
}

TEST_F(BatchJobTest, GivesEveryRowASlotOfTheCapacityThatIsAskedFor) {
  GenerateCommand small = command("{\"ids\": [4, 5, 6]}\n");
  small.engine.capacity = 20;
  EXPECT_EQ(options_of(small).capacity, 20);
}

TEST_F(BatchJobTest, HasSlotsForAllBeamsOfARow) {
  GenerateCommand beams = command("{\"ids\": [4]}\n", {{"num_beams", "4"}});
  EXPECT_EQ(options_of(beams).slots, 4);
  EXPECT_EQ(options_of(beams).choosers, Choosers::kAllowed);
  beams.engine.slots = 3;
  expect_refused(beams, "--batch-size: found 3, expected at least 4");
}

TEST_F(BatchJobTest, DraftsAsOtherJobsDo) {
  const std::string row = "{\"ids\": [4]}\n";
  EXPECT_EQ(options_of(command(row, {{"prompt_lookup_num_tokens", "3"}})).drafting,
            (Drafting{.tokens = 3, .lookup_ngram = 2}));
  expect_refused(command(row, {{"prompt_lookup_num_tokens", "3"}, {"suppress_tokens", "[5]"}}),
                 "found drafts and suppress_tokens");
}

TEST_F(BatchJobTest, RefusesWhatNoRowCanBeAnsweredWith) {
  const std::string row = "{\"ids\": [4]}\n";
  expect_refused(command(row, {{"top_k", "5.5"}}), "top_k: found 5.5");
  expect_refused(command(""), "no rows");
  expect_refused(command("{\"prompt\": \"a\"}\n"), "tokenizer.json", ErrorKind::kNotFound);
  GenerateCommand missing = command(row);
  missing.prompts.jobs_file = model_.path() / "absent.jsonl";
  expect_refused(missing, "absent.jsonl", ErrorKind::kNotFound);
}

TEST_F(BatchJobTest, BeginsNoJournalForACapacityThatTheModelLacks) {
  GenerateCommand job = command("{\"ids\": [4]}\n");
  job.journal = model_.path() / "journal";
  job.engine.capacity = 65;
  expect_refused(job, "--max-seq-len: found 65, expected at most 64");
  job.engine.capacity = 64;
  EXPECT_EQ(options_of(job).capacity, 64);
}

TEST_F(BatchJobTest, KeepsTheCapacityOfTheFirstStartInTheJournal) {
  GenerateCommand job = command("{\"ids\": [4]}\n{\"ids\": [5, 6, 7]}\n");
  job.journal = model_.path() / "journal";
  EXPECT_EQ(options_of(job).capacity, 3 + 5 - 1);
  GenerateCommand again = job;
  again.engine.slots = 1;  // of speed alone
  EXPECT_EQ(options_of(again).capacity, 3 + 5 - 1);
  GenerateCommand other = job;
  other.generation["max_new_tokens"] = "6";
  expect_refused(other, "found --max-new-tokens 6 now, expected 5", ErrorKind::kInvalidArgument);
}

TEST_F(BatchJobTest, APartOfAJobRefusesAnotherJobsFileOrModel) {
  GenerateCommand part = command("{\"ids\": [4]}\n{\"ids\": [5]}\n");
  // In a folder whose name is short enough for a socket.
  part.rows_from = {.socket = std::filesystem::temp_directory_path() / fmt::format("batch-job-{}", ::getpid()),
                    .group = 1};
  const JobsFile jobs = JobsFile::open(*part.prompts.jobs_file, ChatRows::kNo).value();
  const auto results = keep_in_memory();
  SharedRows rows(
      *results, jobs.size(), /*unrecorded=*/100, [](const Error&) {}, [](uint64_t) {});
  const Model model = Model::open(part.model.directory).value();
  const uint64_t job = fingerprint_of(describe_job(part, model, jobs).value());
  const auto server = RowServer::open(rows, {.capacity = 5, .rows = jobs.size(), .job = job},
                                      /*most=*/100, {.socket = part.rows_from.socket});
  ASSERT_TRUE(server.has_value()) << server.error().message;
  EXPECT_EQ(options_of(part).slots, 2);
  model_.write("jobs.jsonl", "{\"ids\": [4]}\n{\"ids\": [6]}\n");
  expect_refused(part, "than the process that shares the rows out", ErrorKind::kFailedPrecondition);
  model_.write("jobs.jsonl", "{\"ids\": [4]}\n{\"ids\": [5]}\n");
  EXPECT_EQ(options_of(part).slots, 2);
  model_.write("model.safetensors", "other weights");
  expect_refused(part, "than the process that shares the rows out", ErrorKind::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::launcher
