// Batch jobs as a whole, in this process: a tiny model with random weights on ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/commands/generate.h"
#include "runtime/journal/journal_file.h"
#include "tests/model/hashed_weights.h"
#include "tests/model/tiny_models.h"
#include "tests/model/tiny_weights.h"
#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep::launcher {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class BatchTest : public ::testing::Test {
 protected:
  void SetUp() override { model::write_hashed_weights(model_.path(), model::llama_tensors(), /*seed=*/3, {}); }

  GenerateCommand command(std::string_view jobs, std::map<std::string, std::string> options = {}, int ranks = 1) const {
    GenerateCommand command;
    command.model.directory = model_.path();
    command.model.ranks = ranks;
    command.run.launch = Launch::kThreads;
    command.engine.threads = 1;
    command.run.deadline_s = 15;
    command.prompts.jobs_file = model_.write("jobs.jsonl", jobs);
    command.ignore_eos = true;
    command.generation = std::move(options);
    command.generation.emplace("max_new_tokens", "6");
    command.output = model_.path() / "out.jsonl";
    return command;
  }

  std::vector<Json> run(const GenerateCommand& command) const {
    const auto ran = generate(command);
    EXPECT_TRUE(ran.has_value()) << ran.error().message;
    std::vector<Json> rows;
    std::ifstream file(*command.output);
    for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
    return rows;
  }

  void expect_refused(const GenerateCommand& command, const std::string& words,
                      ErrorKind kind = ErrorKind::kInvalidArgument) const {
    const auto ran = generate(command);
    ASSERT_FALSE(ran.has_value()) << words;
    EXPECT_EQ(ran.error().kind, kind) << ran.error().message;
    EXPECT_THAT(ran.error().message, HasSubstr(words));
  }

  std::string journal_bytes() const {
    std::ifstream file(journal::path_of_file(model_.path() / "journal"), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  model::TinyModel model_{model::kTinyLlama};
};

constexpr const char* kRows = R"({"id": "a", "ids": [1, 5, 9, 5, 9]}
{"id": "long", "ids": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], "max_new_tokens": 60}
{"id": "b", "ids": [4], "do_sample": true, "seed": 5, "max_new_tokens": 3}
{"id": "unknown", "ids": [4, 32]}
{"id": "hot", "ids": [4], "temperature": "hot"}
)";

TEST_F(BatchTest, AnswersEveryRowInOrderAndSaysWhatIsWrongWithOne) {
  GenerateCommand job = command(kRows, {}, /*ranks=*/2);
  job.engine.capacity = 20;
  const auto rows = run(job);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0]["id"], "a");
  EXPECT_EQ(rows[0]["ids"].size(), 6u);
  EXPECT_EQ(rows[0]["finish_reason"], "length");
  EXPECT_THAT(rows[1]["error"].get<std::string>(), HasSubstr("13 tokens"));
  EXPECT_EQ(rows[2]["ids"].size(), 3u);
  EXPECT_THAT(rows[3]["error"].get<std::string>(), HasSubstr("token id 32"));
  EXPECT_THAT(rows[4]["error"].get<std::string>(), HasSubstr("temperature"));
}

TEST_F(BatchTest, DrawsARowWithItsOwnSeedWhereverItStands) {
  const std::string row = R"({"ids": [4], "do_sample": true, "seed": 5, "temperature": 3.0})";
  const auto first = run(command(row + "\n{\"ids\": [7]}\n"));
  const auto third = run(command("{\"ids\": [9, 9]}\n{\"ids\": [7]}\n" + row + "\n"));
  EXPECT_EQ(first[0]["ids"], third[2]["ids"]);
}

TEST_F(BatchTest, GivesTheTokensOfAJobOfAFewPrompts) {
  const std::map<std::string, std::string> drawn = {{"do_sample", "true"}, {"temperature", "3.0"}};
  const auto rows = run(command("{\"ids\": [4]}\n{\"ids\": [7, 3]}\n{\"ids\": [7, 3]}\n", drawn));
  GenerateCommand few = command("{}", drawn);
  few.prompts = {
      .texts = {}, .file = {}, .ids_file = model_.write("ids.json", "[[4], [7, 3], [7, 3]]"), .jobs_file = {}};
  few.output.reset();
  few.json = model_.path() / "out.json";
  ASSERT_TRUE(generate(few).has_value());
  const Json answers = Json::parse(std::ifstream(*few.json));
  for (size_t row = 0; row < 3; ++row) EXPECT_EQ(rows[row]["ids"], answers["sequences"][row]) << row;
  EXPECT_NE(rows[1]["ids"], rows[2]["ids"]);
}

TEST_F(BatchTest, GivesSeveralAnswersAndLogProbabilities) {
  const auto drawn =
      run(command("{\"ids\": [4]}\n{\"ids\": [7]}\n", {{"do_sample", "true"}, {"num_return_sequences", "3"}}));
  ASSERT_EQ(drawn[1]["answers"].size(), 3u);
  const auto beams =
      run(command("{\"ids\": [4]}\n{\"ids\": [7]}\n", {{"num_beams", "3"}, {"num_return_sequences", "2"}}));
  ASSERT_EQ(beams[1]["answers"].size(), 2u);
  EXPECT_GT(beams[1]["answers"][0]["score"], beams[1]["answers"][1]["score"]);
  const auto told = run(command("{\"ids\": [4]}\n", {{"top_logprobs", "2"}}));
  EXPECT_EQ(told[0]["logprobs"].size(), 6u);
  EXPECT_EQ(told[0]["top_logprobs"][5].size(), 2u);
}

TEST_F(BatchTest, GoesOnAfterEveryRecordOfItsJournal) {
  GenerateCommand job = command(kRows);
  job.engine.capacity = 20;
  job.engine.slots = 1;
  const auto whole = run(job);
  job.journal = model_.path() / "journal";
  EXPECT_EQ(run(job), whole);
  const std::string bytes = journal_bytes();
  for (size_t size = bytes.size() / 4; size < bytes.size(); size += 97) {
    std::ofstream(journal::path_of_file(*job.journal), std::ios::binary) << bytes.substr(0, size);
    job.model.ranks = 1 + static_cast<int>(size % 2);
    EXPECT_EQ(run(job), whole) << size;
  }
}

TEST_F(BatchTest, GoesOnWithOtherOptionsOfSpeedButNotOfTokens) {
  GenerateCommand job = command("{\"ids\": [4]}\n{\"ids\": [7]}\n");
  job.journal = model_.path() / "journal";
  const auto whole = run(job);
  const std::string bytes = journal_bytes();
  std::ofstream(journal::path_of_file(*job.journal), std::ios::binary) << bytes.substr(0, bytes.size() - 1);
  GenerateCommand faster = job;
  faster.engine.slots = 1;
  faster.engine.prefill_chunk = 4;
  faster.generation["prompt_lookup_num_tokens"] = "2";
  EXPECT_EQ(run(faster), whole);
  GenerateCommand longer = job;
  longer.generation["max_new_tokens"] = "7";
  expect_refused(longer, "found --max-new-tokens 7 now, expected 6");
  GenerateCommand drawn = job;
  drawn.generation["do_sample"] = "true";
  expect_refused(drawn, "found do_sample true now, expected none");
  GenerateCommand more = job;
  more.prompts.jobs_file = model_.write("more.jsonl", "{\"ids\": [4]}\n{\"ids\": [8]}\n");
  expect_refused(more, "hash of the jobs file's rows");
  model::write_hashed_weights(model_.path(), model::llama_tensors(), /*seed=*/4, {});
  expect_refused(job, "model's weights");
}

TEST_F(BatchTest, RefusesOptionsThatItCannotHave) {
  const std::string row = "{\"ids\": [4]}\n";
  GenerateCommand json = command(row);
  json.json = "out.json";
  expect_refused(json, "--json with --prompts-file");
  GenerateCommand journal = command(row);
  journal.prompts = {.texts = {"x"}, .file = {}, .ids_file = {}, .jobs_file = {}};
  journal.output.reset();
  journal.journal = "journal";
  expect_refused(journal, "--journal without --prompts-file");
  GenerateCommand logits = command(row);
  logits.output_logits = "logits.safetensors";
  expect_refused(logits, "--output-logits or --output-scores with --prompts-file");
  GenerateCommand output = command(row);
  output.prompts = {.texts = {"x"}, .file = {}, .ids_file = {}, .jobs_file = {}};
  expect_refused(output, "--output without --prompts-file");
  GenerateCommand nowhere = command(row);
  nowhere.journal = model_.path() / "no" / "journal";
  expect_refused(nowhere, "cannot use");
}

TEST_F(BatchTest, EndsEachRowInTime) {
  const auto rows = run(command("{\"ids\": [4]}\n{\"ids\": [7]}\n", {{"max_time", "0.000001"}}));
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows) {
    EXPECT_LT(row["ids"].size(), 6u);
    EXPECT_FALSE(row.contains("error"));
  }
  const auto whole = run(command("{\"ids\": [4]}\n", {{"max_time", "600"}}));
  EXPECT_EQ(whole[0]["ids"].size(), 6u);
  EXPECT_EQ(whole[0]["finish_reason"], "length");
}

TEST_F(BatchTest, IsObservedAsOtherJobsAre) {
  GenerateCommand job = command("{\"ids\": [4]}\n{\"ids\": [7]}\n", {}, /*ranks=*/2);
  const auto plain = run(job);
  job.engine.observe = {
      .profile = true, .trace = model_.path() / "trace.json", .metrics = model_.path() / "metrics.prom"};
  EXPECT_EQ(run(job), plain);
  EXPECT_FALSE(Json::parse(std::ifstream(*job.engine.observe.trace)).empty());
  std::ifstream metrics(*job.engine.observe.metrics);
  const std::string text{std::istreambuf_iterator<char>(metrics), std::istreambuf_iterator<char>()};
  EXPECT_THAT(text, HasSubstr("lockstep_generated_tokens_total 12\n"));
}

TEST_F(BatchTest, WritesTheResultsAgainWhenEveryRowIsDone) {
  GenerateCommand job = command("{\"ids\": [4]}\n{\"ids\": [7]}\n", {}, /*ranks=*/2);
  job.journal = model_.path() / "journal";
  const auto whole = run(job);
  std::filesystem::remove(*job.output);
  EXPECT_EQ(run(job), whole);
}

TEST_F(BatchTest, RefusesAJobWhoseNegativePromptHasNoGuidance) {
  model_.write("tokenizer.json", generation::kTinyTokenizer);
  GenerateCommand job = command("{\"ids\": [4]}\n");
  job.negative_prompts = {"a"};
  expect_refused(job, "a negative prompt without guidance");
}

TEST_F(BatchTest, AnswersRowsWhoseTokensTheTokenizerLacks) {
  model_.write("tokenizer.json", generation::kTinyTokenizer);
  const auto rows = run(command("{\"prompt\": \"ab\"}\n{\"ids\": [5]}\n"));
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& row : rows) {
    EXPECT_FALSE(row.contains("error")) << row.dump();
    EXPECT_TRUE(row["text"].is_string()) << row.dump();  // of the other tokens
  }
}

}  // namespace
}  // namespace lockstep::launcher
