// `generate` as a whole, in this process: a tiny model with random weights on two ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "launcher/commands/commands.h"
#include "tests/launcher/tiny_models.h"
#include "tests/launcher/tiny_weights.h"
#include "tests/model/hashed_weights.h"
#include "tests/model/stored_tensor.h"

namespace lockstep::launcher {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;

class GenerateTest : public ::testing::Test {
 protected:
  void SetUp() override { model::write_hashed_weights(model_.path(), llama_tensors(), /*seed=*/3, {}); }

  GenerateCommand command(std::map<std::string, std::string> options = {}) const {
    GenerateCommand command;
    command.model.model = model_.path();
    command.model.tp = 2;
    command.run.launch = Launch::kThreads;
    command.run.threads = 1;
    command.run.deadline_s = 15;
    command.prompts.ids_file = model_.write("ids.json", "[[1, 5, 9, 5, 9], [4]]");
    command.max_new_tokens = 6;
    command.ignore_eos = true;
    command.generation = std::move(options);
    command.json = model_.path() / "out.json";
    return command;
  }

  Json run(const GenerateCommand& command) const {
    const auto ran = generate(command);
    EXPECT_TRUE(ran.has_value()) << ran.error().message;
    return ran.has_value() ? Json::parse(std::ifstream(*command.json)) : Json();
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

  TinyModel model_{kTinyLlama};
};

TEST_F(GenerateTest, RunsWhereOneRankAloneHoldsAllKeyValueHeads) {
  // 6 query heads over 2: the middle one of three ranks reads both, the others one each.
  Json config = Json::parse(kTinyLlama);
  config["num_attention_heads"] = 6;
  config["num_key_value_heads"] = 2;
  const TinyModel model(config.dump(), "six_heads");
  model::write_hashed_weights(model.path(), llama_tensors(6, 2), /*seed=*/3, {});
  GenerateCommand whole = command();
  whole.model.model = model.path();
  whole.model.tp = 1;
  GenerateCommand divided = whole;
  divided.model.tp = 3;
  EXPECT_EQ(run(divided)["sequences"], run(whole)["sequences"]);
}

TEST_F(GenerateTest, UsesTheHeadOfTheFilesWhereTheConfigTiesItToAnotherEmbedding) {
  Json config = Json::parse(kTinyLlama);
  config["tie_word_embeddings"] = true;
  const TinyModel tied(config.dump(), "tied");
  model::write_hashed_weights(tied.path(), llama_tensors(), /*seed=*/3, {});
  const Json untied = run(command());
  for (const int ranks : {1, 2}) {
    GenerateCommand other = command();
    other.model.model = tied.path();
    other.model.tp = ranks;
    other.draft_model = tied.path();
    other.generation["num_assistant_tokens"] = "2";
    const Json json = run(other);
    EXPECT_EQ(json["sequences"], untied["sequences"]);
    if (ranks == 1) continue;
    other.draft_model.reset();
    EXPECT_EQ(run(other)["memory"]["ranks"][1]["weights"], untied["memory"]["ranks"][1]["weights"]);
  }
}

TEST_F(GenerateTest, TiesAHeadThatIsTheEmbeddingAgain) {
  Json config = Json::parse(kTinyLlama);
  config["tie_word_embeddings"] = true;
  const auto run_of = [&](const std::string& name, bool has_head) {
    const TinyModel model(config.dump(), name);
    std::vector<model::StoredTensor> tensors;
    for (const model::HashedTensor& tensor : llama_tensors()) {
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
    command.model.model = model.path();
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
    watched.observe = {.profile = true,
                       .trace = model_.path() / "trace.json",
                       .trace_events = 1000,
                       .metrics = model_.path() / "metrics.prom"};
    const Json json = run(watched);
    EXPECT_EQ(json["sequences"], alone["sequences"]);
    ASSERT_THAT(json["ranks"], SizeIs(2));
    EXPECT_GT(json["ranks"][1]["decode"]["steps"], 0);
    EXPECT_EQ(json["ranks"][1]["decode"]["collectives"], json["ranks"][0]["decode"]["collectives"]);
    const Json trace = Json::parse(std::ifstream(*watched.observe.trace));
    EXPECT_GT(trace["traceEvents"].size(), 20u);
    std::stringstream metrics;
    metrics << std::ifstream(*watched.observe.metrics).rdbuf();
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
  EXPECT_GT(lookup["speculation"]["steps"], 0);
  GenerateCommand drafted = command({{"num_assistant_tokens", "2"}});
  drafted.draft_model = model_.path();
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

TEST_F(GenerateTest, RefusesADraftModelWhosePositionsEndBefore) {
  const TinyModel gpt2(kTinyGpt2, "draft");
  GenerateCommand drafted = command({{"num_assistant_tokens", "2"}});
  drafted.draft_model = gpt2.path();
  drafted.model.max_seq_len = 62;
  const auto ran = generate(drafted);
  ASSERT_FALSE(ran.has_value());
  EXPECT_EQ(ran.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(ran.error().message, HasSubstr("--draft-model: found a model of 64 positions, expected at least 65"));
}

}  // namespace
}  // namespace lockstep::launcher
