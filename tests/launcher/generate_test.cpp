// `generate` as a whole, in this process: a tiny model with random weights on two ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>

#include "launcher/commands/generate.h"
#include "tests/model/hashed_weights.h"
#include "tests/model/stored_tensor.h"
#include "tests/model/tiny_models.h"
#include "tests/model/tiny_weights.h"
#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep::launcher {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;

class GenerateTest : public ::testing::Test {
 protected:
  void SetUp() override { model::write_hashed_weights(model_.path(), model::llama_tensors(), /*seed=*/3, {}); }

  GenerateCommand command(std::map<std::string, std::string> options = {}) const {
    GenerateCommand command;
    command.model.directory = model_.path();
    command.model.ranks = 2;
    command.run.launch = Launch::kThreads;
    command.engine.threads = 1;
    command.run.deadline_s = 15;
    command.prompts.ids_file = model_.write("ids.json", "[[1, 5, 9, 5, 9], [4]]");
    command.ignore_eos = true;
    command.generation = std::move(options);
    command.generation.emplace("max_new_tokens", "6");
    command.json = model_.path() / "out.json";
    return command;
  }

  Json run(const GenerateCommand& command) const {
    const auto ran = generate(command);
    EXPECT_TRUE(ran.has_value()) << ran.error().message;
    return ran.has_value() ? Json::parse(std::ifstream(*command.json)) : Json();
  }

  void expect_refused(const GenerateCommand& command, const std::string& words,
                      ErrorKind kind = ErrorKind::kInvalidArgument) const {
    const auto ran = generate(command);
    ASSERT_FALSE(ran.has_value()) << words;
    EXPECT_EQ(ran.error().kind, kind) << ran.error().message;
    EXPECT_THAT(ran.error().message, HasSubstr(words));
  }

  /// Ids of the model that the tiny tokenizer does not have, and those of parts of characters.
  static std::string unknown_ids() {
    Json ids = {7, 8, 9};
    for (int id = 10; id < 32; ++id) ids.push_back(id);
    return ids.dump();
  }

  /// The header of a safetensors file.
  Json header(const std::filesystem::path& path) const {
    std::ifstream file(path, std::ios::binary);
    uint64_t bytes = 0;
    file.read(reinterpret_cast<char*>(&bytes), sizeof bytes);
    std::string text(bytes, ' ');
    file.read(text.data(), static_cast<std::streamsize>(bytes));
    return Json::parse(text);
  }

  model::TinyModel model_{model::kTinyLlama};
};

TEST_F(GenerateTest, RunsWhereOneRankAloneHoldsAllKeyValueHeads) {
  // 6 query heads over 2: the middle one of three ranks reads both, the others one each.
  Json config = Json::parse(model::kTinyLlama);
  config["num_attention_heads"] = 6;
  config["num_key_value_heads"] = 2;
  const model::TinyModel model(config.dump(), "six_heads");
  model::write_hashed_weights(model.path(), model::llama_tensors(6, 2), /*seed=*/3, {});
  GenerateCommand whole = command();
  whole.model.directory = model.path();
  whole.model.ranks = 1;
  GenerateCommand divided = whole;
  divided.model.ranks = 3;
  EXPECT_EQ(run(divided)["sequences"], run(whole)["sequences"]);
}

TEST_F(GenerateTest, UsesTheHeadOfTheFilesWhereTheConfigTiesItToAnotherEmbedding) {
  Json config = Json::parse(model::kTinyLlama);
  config["tie_word_embeddings"] = true;
  const model::TinyModel tied(config.dump(), "tied");
  model::write_hashed_weights(tied.path(), model::llama_tensors(), /*seed=*/3, {});
  const Json untied = run(command());
  for (const int ranks : {1, 2}) {
    GenerateCommand other = command();
    other.model.directory = tied.path();
    other.model.ranks = ranks;
    other.engine.drafting.model = tied.path();
    other.generation["num_assistant_tokens"] = "2";
    const Json json = run(other);
    EXPECT_EQ(json["sequences"], untied["sequences"]);
    if (ranks == 1) continue;
    other.engine.drafting.model.reset();
    EXPECT_EQ(run(other)["memory"]["ranks"][1]["weights"], untied["memory"]["ranks"][1]["weights"]);
  }
}

TEST_F(GenerateTest, TiesAHeadThatIsTheEmbeddingAgain) {
  Json config = Json::parse(model::kTinyLlama);
  config["tie_word_embeddings"] = true;
  const auto run_of = [&](const std::string& name, bool has_head) {
    const model::TinyModel model(config.dump(), name);
    std::vector<model::StoredTensor> tensors;
    for (const model::HashedTensor& tensor : model::llama_tensors()) {
      model::HashedTensor source = tensor;
      if (tensor.name == "lm_head.weight") source.name = "model.embed_tokens.weight";
      if (tensor.name == source.name || has_head) {
        const auto values = model::hashed_tensor(/*seed=*/3, source);
        const auto bytes = std::as_bytes(std::span(values));
        tensors.push_back({tensor.name, {DType::kFloat32, tensor.shape}, {bytes.begin(), bytes.end()}});
      }
    }
    model::write_safetensors(model.path() / "model.safetensors", tensors);
    GenerateCommand command = this->command();
    command.model.directory = model.path();
    return run(command);
  };
  const Json alone = run_of("alone", false), again = run_of("again", true);
  EXPECT_EQ(again["sequences"], alone["sequences"]);
  EXPECT_EQ(again["memory"]["ranks"][1]["weights"], alone["memory"]["ranks"][1]["weights"]);
}

TEST_F(GenerateTest, IsWatchedWithoutChangingTheAnswer) {
  for (const auto& options : {std::map<std::string, std::string>{}, {{"num_beams", "2"}}}) {
    const Json alone = run(command(options));
    EXPECT_FALSE(alone.contains("ranks"));
    EXPECT_GT(alone["memory"]["ranks"][0]["peak_resident"], 0);
    GenerateCommand watched = command(options);
    watched.engine.observe = {.profile = true,
                              .trace = model_.path() / "trace.json",
                              .trace_events = 1000,
                              .metrics = model_.path() / "metrics.prom"};
    const Json json = run(watched);
    EXPECT_EQ(json["sequences"], alone["sequences"]);
    ASSERT_THAT(json["ranks"], SizeIs(2));
    EXPECT_GT(json["ranks"][1]["decode"]["steps"], 0);
    EXPECT_EQ(json["ranks"][1]["decode"]["collectives"], json["ranks"][0]["decode"]["collectives"]);
    const Json trace = Json::parse(std::ifstream(*watched.engine.observe.trace));
    EXPECT_GT(trace["traceEvents"].size(), 20u);
    std::stringstream metrics;
    metrics << std::ifstream(*watched.engine.observe.metrics).rdbuf();
    EXPECT_THAT(metrics.str(), HasSubstr("lockstep_generated_tokens_total 12\n"));
  }
}

TEST_F(GenerateTest, TellsTheLatencyOfEveryToken) {
  const Json json = run(command());
  EXPECT_THAT(json["sequences"], Each(SizeIs(6)));
  const Json& latencies = json["timings"]["token_latencies_s"];
  ASSERT_EQ(latencies.size(), 2u);
  EXPECT_THAT(latencies, Each(SizeIs(6)));
  EXPECT_EQ(latencies[0][0], json["timings"]["ttft_s"]);
  EXPECT_EQ(json["graphs"]["compiled"], 2);
  EXPECT_EQ(json["graphs"]["after_warmup"], 0);
}

TEST_F(GenerateTest, AnswersTheSameWhetherTheGraphsOrTheHostChoose) {
  const Json by_graph = run(command());
  GenerateCommand by_host = command({{"top_logprobs", "3"}});
  by_host.output_scores = model_.path() / "scores.safetensors";
  by_host.output_logits = model_.path() / "logits.safetensors";
  const Json json = run(by_host);
  EXPECT_EQ(json["sequences"], by_graph["sequences"]);
  EXPECT_THAT(json["logprobs"], Each(SizeIs(6)));
  EXPECT_THAT(json["top_logprobs"][1], Each(SizeIs(3)));
  EXPECT_EQ(json["top_logprobs"][0][2][0]["id"], json["sequences"][0][2]);  // greedy: the likeliest
  EXPECT_EQ(header(*by_host.output_scores)["scores"]["shape"], Json({2, 6, 32}));
  EXPECT_EQ(header(*by_host.output_logits)["logits"]["shape"], Json({2, 6, 32}));
}

TEST_F(GenerateTest, AnswersTheSameWithDrafts) {
  const Json plain = run(command());
  const Json lookup = run(command({{"prompt_lookup_num_tokens", "2"}}));
  EXPECT_EQ(lookup["sequences"], plain["sequences"]);
  EXPECT_EQ(lookup["graphs"]["compiled"], 3);
  EXPECT_GT(lookup["speculation"]["drafted"], 0);
  GenerateCommand drafted = command({{"num_assistant_tokens", "2"}});
  drafted.engine.drafting.model = model_.path();
  const Json json = run(drafted);
  EXPECT_EQ(json["sequences"], plain["sequences"]);
  EXPECT_GT(json["speculation"]["accepted"], 0);  // it drafts for itself
}

TEST_F(GenerateTest, ReturnsTheBestBeamsOfEachPrompt) {
  const Json json = run(command({{"num_beams", "3"}, {"num_return_sequences", "2"}}));
  EXPECT_THAT(json["sequences"], SizeIs(4));
  const std::vector<double> scores = json["sequences_scores"];
  ASSERT_THAT(scores, SizeIs(4));
  EXPECT_GE(scores[0], scores[1]);
  EXPECT_GE(scores[2], scores[3]);
  EXPECT_EQ(json["batch_size"], 6);
}

TEST_F(GenerateTest, GuidesAwayFromTheNegativePrompt) {
  GenerateCommand guided = command({{"guidance_scale", "3"}});
  guided.prompts.ids_file = model_.write("ids.json", R"([{"ids": [1, 5, 9], "negative": [7, 7]}])");
  const Json json = run(guided);
  EXPECT_THAT(json["sequences"], Each(SizeIs(6)));
  EXPECT_EQ(json["batch_size"], 2);
}

TEST_F(GenerateTest, GivesOneNegativeTextToAllPromptsOrOneToEach) {
  model_.write("tokenizer.json", generation::kTinyTokenizer);
  // Only ids known to the tokenizer.
  GenerateCommand texts = command({{"guidance_scale", "3"}, {"suppress_tokens", unknown_ids()}});
  GenerateCommand ids = texts;
  texts.prompts = {.texts = {"a", "c", "bc"}};
  const auto expect_as_ids = [&](std::string_view rows) {
    ids.prompts = {.ids_file = model_.write("ids.json", rows)};
    EXPECT_EQ(run(texts)["sequences"], run(ids)["sequences"]);
  };
  texts.negative_prompts = {"bcc"};
  expect_as_ids(
      R"([{"ids": [0], "negative": [6, 2]}, {"ids": [2], "negative": [6, 2]}, {"ids": [6], "negative": [6, 2]}])");
  texts.negative_prompts = {"c", "ab", "a"};
  expect_as_ids(R"([{"ids": [0], "negative": [2]}, {"ids": [2], "negative": [5]}, {"ids": [6], "negative": [0]}])");
}

TEST_F(GenerateTest, CutsTextsBeforeAStopString) {
  model_.write("tokenizer.json", generation::kTinyTokenizer);
  GenerateCommand job = command({{"suppress_tokens", unknown_ids()}});
  const Json whole = run(job);
  const std::string text = whole["texts"][0];
  ASSERT_GE(text.size(), 2u);
  job.stop_strings = {text.substr(1)};
  const Json cut = run(job);
  EXPECT_EQ(cut["texts"][0], text.substr(0, text.find(job.stop_strings[0])));
  EXPECT_EQ(cut["finish_reasons"][0], "stop");
}

TEST_F(GenerateTest, DrawsEachSequenceOfAPromptWithItsOwnSeed) {
  const std::map<std::string, std::string> drawn = {{"do_sample", "true"}, {"temperature", "3.0"}};
  GenerateCommand three = command(drawn);
  three.generation["num_return_sequences"] = "3";
  three.prompts.ids_file = model_.write("two.json", "[[1, 3, 4], [5, 6]]");
  GenerateCommand six = command(drawn);
  six.prompts.ids_file = model_.write("six.json", "[[1, 3, 4], [1, 3, 4], [1, 3, 4], [5, 6], [5, 6], [5, 6]]");
  const Json json = run(three);
  EXPECT_EQ(json["sequences"], run(six)["sequences"]);  // prompt by prompt
  const std::vector<std::vector<int32_t>> sequences = json["sequences"];
  EXPECT_THAT(sequences, SizeIs(6));
  EXPECT_EQ(std::set(sequences.begin(), sequences.end()).size(), 6u);
}

TEST_F(GenerateTest, GivesEachPromptTheTokensThatItsLengthLeaves) {
  GenerateCommand longest = command({{"max_length", "10"}});
  longest.generation.erase("max_new_tokens");
  const auto lengths = [this](const GenerateCommand& job) {
    const Json json = run(job);
    std::vector<size_t> each;
    for (const Json& row : json["sequences"]) each.push_back(row.size());
    return each;
  };
  EXPECT_THAT(lengths(longest), ElementsAre(10 - 5, 10 - 1));
  longest.generation.erase("max_length");
  const Json json = run(longest);
  EXPECT_THAT(json["sequences"][0], SizeIs(64 - 5 + 1));  // the last is never attended to
  EXPECT_THAT(json["sequences"][1], SizeIs(64 - 1 + 1));
  EXPECT_EQ(json["max_seq_len"], 64);
}

TEST_F(GenerateTest, LeavesOutWhatIsMasked) {
  GenerateCommand masked = command();
  masked.prompts.ids_file =
      model_.write("masked.json", R"([{"ids": [0, 1, 9, 9, 3, 4, 0], "mask": [0, 1, 0, 0, 1, 1, 0]}])");
  GenerateCommand plain = command();
  plain.prompts.ids_file = model_.write("plain.json", "[[1, 3, 4]]");
  EXPECT_EQ(run(masked)["sequences"], run(plain)["sequences"]);
}

TEST_F(GenerateTest, TellsRawLogitsThatTheHostChoseFromToo) {
  GenerateCommand beams = command({{"num_beams", "2"}});
  beams.output_logits = model_.path() / "logits.safetensors";
  run(beams);
  EXPECT_EQ(header(*beams.output_logits)["logits"]["shape"], Json({2, 6, 32}));
}

TEST_F(GenerateTest, StopsInTime) {
  const Json json = run(command({{"max_time", "0.000001"}}));
  ASSERT_EQ(json["sequences"].size(), 2u);
  for (const Json& row : json["sequences"]) EXPECT_LT(row.size(), 6u);
}

TEST_F(GenerateTest, RefusesMoreTokensThanTheModelHasPositions) {
  GenerateCommand longer = command();
  longer.engine.capacity = 65;
  expect_refused(longer, "--max-seq-len: found 65, expected at most 64");
}

TEST_F(GenerateTest, RefusesOutputsThatCannotBeWrittenBeforeItBegins) {
  const std::filesystem::path nowhere = model_.path() / "absent" / "file";
  GenerateCommand json = command(), logits = command(), scores = command(), trace = command(), metrics = command();
  json.json = nowhere;
  logits.output_logits = nowhere;
  scores.output_scores = nowhere;
  trace.engine.observe.trace = nowhere;
  metrics.engine.observe.metrics = nowhere;
  expect_refused(json, "--json");
  expect_refused(logits, "--output-logits");
  expect_refused(scores, "--output-scores");
  expect_refused(trace, "--trace");
  expect_refused(metrics, "--metrics");
}

TEST_F(GenerateTest, FailsOnEveryRankWhereOneFails) {
  GenerateCommand failing = command();
  failing.run.exit_record = model_.path();
  failing.run.faults = {"rank=1,phase=load,kind=fail"};
  expect_refused(failing, "rank 1 failed in load", ErrorKind::kInternal);
  for (const char* name : {"rank-0.json", "rank-1.json"}) {
    const Json record = Json::parse(std::ifstream(model_.path() / name));
    EXPECT_EQ(record["code"], exit_code(ErrorKind::kInternal)) << name;
    EXPECT_THAT(record["message"].get<std::string>(), HasSubstr("rank 1 failed in load")) << name;
  }
}

TEST_F(GenerateTest, RefusesADraftModelWhosePositionsEndBefore) {
  const model::TinyModel gpt2(model::kTinyGpt2, "draft");
  GenerateCommand drafted = command({{"num_assistant_tokens", "2"}});
  drafted.engine.drafting.model = gpt2.path();
  drafted.engine.capacity = 62;
  expect_refused(drafted, "--draft-model: found a model of 64 positions, expected at least 65");
}

}  // namespace
}  // namespace lockstep::launcher
