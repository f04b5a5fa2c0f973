// Whole runs of `bench` on a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/measure/bench/bench.h"
#include "launcher/measure/bench/bench_formulas.h"
#include "launcher/measure/bench/replay.h"
#include "runtime/backends/cpu/cpu.h"
#include "shards/weights.h"
#include "tests/launcher/tiny_decode.h"

namespace lockstep::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class BenchRun : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "config.json") << model::kTinyLlama;
  }

  BenchCommand command() const {
    BenchCommand command;
    command.random_weights = true;
    command.config = folder_ / "config.json";
    command.model.ranks = 2;
    command.run.launch = Launch::kThreads;
    command.engine.threads = 1;
    command.run.deadline_s = 15;
    command.shape = {.batch = 2, .prompt_tokens = 10, .new_tokens = 4};
    command.repeats = 2;
    command.warmup = 1;
    command.probe_bytes = Bytes(1 << 20);
    command.json = folder_ / "out.json";
    return command;
  }

  Json result() const { return Json::parse(std::ifstream(folder_ / "out.json")); }

  std::filesystem::path folder_;
};

TEST_F(BenchRun, TracesItsLastRepetitionInARunWithItsFacts) {
  BenchCommand traced = command();
  traced.trace = folder_ / "trace.json";
  traced.repeats = 1;
  const auto ran = bench(traced);
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  const Json trace = Json::parse(std::ifstream(*traced.trace));
  std::vector<Json> runs, steps;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == "phase") runs.push_back(event);
    if (event["ph"] == "X" && event["cat"] == "step") steps.push_back(event);
  }
  ASSERT_EQ(runs.size(), 2u);  // ranks
  for (const Json& run : runs) {
    EXPECT_EQ(run["name"], "run");
    EXPECT_EQ(run["args"]["backend"], "cpu");
    EXPECT_EQ(run["args"]["model"], "random weights");
    EXPECT_EQ(run["args"]["communicator"], "loopback");
  }
  ASSERT_FALSE(steps.empty());
  for (const Json& step : steps) {
    const Json& run = step["pid"] == runs[0]["pid"] ? runs[0] : runs[1];
    EXPECT_GE(step["ts"], run["ts"]);
    EXPECT_LE(step["ts"].get<double>() + step["dur"].get<double>(),
              run["ts"].get<double>() + run["dur"].get<double>() + 1e-3);  // microseconds as double
  }
}

TEST_F(BenchRun, WritesWhatIsPromised) {
  const auto ran = bench(command());
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  const Json json = result();
  for (const char* pointer : {"/decode/tokens_per_s",
                              "/decode/bytes_per_token",
                              "/decode/of_bandwidth",
                              "/prefill/tokens_per_s",
                              "/prefill/flops_per_token",
                              "/prefill/of_peak",
                              "/ttft_s",
                              "/tpot_s",
                              "/probe/read_bytes_per_s",
                              "/first_token/cold_s",
                              "/first_token/warm_s",
                              "/first_token/steady_s",
                              "/probe/flops_per_s",
                              "/predicted/decode_tokens_per_s",
                              "/predicted/prefill_tokens_per_s",
                              "/predicted/tpot_s",
                              "/predicted/ttft_s",
                              "/predicted/communication_share/decode",
                              "/predicted/communication_share/prefill",
                              "/startup/plan",
                              "/startup/connect",
                              "/startup/load",
                              "/startup/session",
                              "/spread/decode_tokens_per_s/min",
                              "/spread/of_peak/max",
                              "/ranks/0/memory/weights"}) {
    const Json::json_pointer at(pointer);
    ASSERT_TRUE(json.contains(at)) << pointer;
    EXPECT_GT(json[at].get<double>(), 0.0) << pointer;
  }
  EXPECT_EQ(json["world_size"], 2);
  EXPECT_EQ(json["threads"], 1);
  EXPECT_EQ(json["repetitions"].size(), 2u);
  EXPECT_FALSE(json["startup"].contains("probe"));
  EXPECT_EQ(json["dropped_collectives"], 0);
  // A warm-up and two repetitions of three decode steps; the host computes.
  ASSERT_EQ(json["graphs"].size(), 2u);
  EXPECT_EQ(json["graphs"][1]["graph"], "decode rows=2 slots=2");
  EXPECT_EQ(json["graphs"][1]["replays"], 3 * 3);
  const DecodeBytes own = decode_bytes(tiny_decode(2, 0, /*slots=*/2), command().shape);
  EXPECT_DOUBLE_EQ(json["graphs"][1]["bytes"], own.weights + 2 * own.cache);
  EXPECT_TRUE(json["graphs"][1]["launches"].is_null());
  EXPECT_TRUE(json["graphs"][1]["device_s"].is_null());
  EXPECT_EQ(json["probe"]["of_devices"], false);
  // 2 layers on 2 ranks: every collective took some time, and one rank entered last.
  ASSERT_EQ(json["ranks"].size(), 2u);
  for (const Json& rank : json["ranks"]) {
    EXPECT_GT(rank["compute_s"].get<double>(), 0.0);
    EXPECT_GT(rank["communication_s"].get<double>() + rank["waiting_s"].get<double>(), 0.0);
  }
  DecodeBytes all;
  for (int rank = 0; rank < 2; ++rank) all += decode_bytes(tiny_decode(2, rank, /*slots=*/2), command().shape);
  EXPECT_DOUBLE_EQ(json["decode"]["bytes_per_token"], bytes_per_token(all, command().shape));
}

TEST_F(BenchRun, ProbesWithTheInstructionsOfTheSteps) {
  BenchCommand portable = command();
  portable.engine.backend_options = {{"instruction-set", "portable"}};
  portable.shape.new_tokens = 9;  // steps enough for probes between them
  const auto ran = bench(portable);
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  const Json json = result();
  for (const Json& repetition : json["repetitions"]) {
    EXPECT_THAT(repetition["read_kernel"].get<std::string>(), HasSubstr("128-bit"));
    EXPECT_THAT(repetition["flops_kernel"].get<std::string>(), AllOf(Not(HasSubstr("256")), Not(HasSubstr("512"))));
    EXPECT_GT(repetition["tpot_s"].get<double>(), 0.0);  // without the probes that lie between tokens
  }
  EXPECT_EQ(json["probe"]["flops_precision"], "float32");
}

TEST_F(BenchRun, ComparesEachRepetitionWithABareReplayOfItsSteps) {
  BenchCommand with_replay = command();
  with_replay.replay = true;
  const auto ran = bench(with_replay);  // fails if the replay's tokens are not those of the served repetition
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  const Json json = result();
  for (const char* phase : {"decode", "prefill"}) {
    const Json& ratio = json["served_over_replay"][phase];
    EXPECT_GT(ratio["min"].get<double>(), 0.0) << phase;
    EXPECT_LE(ratio["min"], ratio["median"]) << phase;
  }
  for (const Json& repetition : json["repetitions"]) EXPECT_GT(repetition["replay"]["decode_s"].get<double>(), 0.0);
}

// A schedule reads eight prompts, one per chunk, and then decodes them eight times; the ninth prompt follows.
TEST_F(BenchRun, CountsDecodeStepsOfAllSequences) {
  BenchCommand batch = command();
  batch.shape = {.batch = 9, .prompt_tokens = 10, .new_tokens = 12};
  batch.engine.prefill_chunk = 10;
  const auto ran = bench(batch);
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  const Json json = result();
  ASSERT_EQ(json["repetitions"].size(), 2u);
  for (const Json& repetition : json["repetitions"]) EXPECT_EQ(repetition["decode_tokens"], (11 - 8) * 9);
}

TEST_F(BenchRun, SaysWhereNoDecodeStepHadAllSequences) {
  BenchCommand batch = command();
  batch.shape = {.batch = 9, .prompt_tokens = 10, .new_tokens = 6};
  batch.engine.prefill_chunk = 10;
  testing::internal::CaptureStdout();
  const auto ran = bench(batch);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("no decode step had all 9 sequences"));
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  const Json json = result();
  ASSERT_EQ(json["repetitions"].size(), 2u);
  for (const Json& repetition : json["repetitions"]) EXPECT_EQ(repetition["decode_tokens"], 5 * 9);
}

TEST(BenchReplay, FindsOtherTokens) {
  shards::ShardOptions options{.slots = 1, .chunk = 4, .capacity = 16, .dtype = DType::kFloat32};
  const checkpoint::ModelSpec spec = tiny_spec();
  auto graphs = shards::build_graphs(spec, partition::make_partition(spec, 1).value(), 0, options, {}).value();
  const auto backend = cpu::make_backend({}).value();
  const auto shard =
      shards::Shard::create(std::move(graphs), options, *backend, nullptr, shards::RandomWeights()).value();
  CallRecorder recorder(*shard);
  recorder.start();
  ASSERT_TRUE(recorder.open_slot(SlotId(0), {.max_new_tokens = 4}).has_value());
  ASSERT_TRUE(recorder.prefill({.ids = {3, 1}, .slot = {0, 0}, .position = {0, 1}, .logit_rows = {1}}, {}).has_value());
  ASSERT_TRUE(recorder.decode({0, 1}).has_value());
  EngineCalls calls = recorder.stop();
  EXPECT_EQ(calls.calls.size(), 3u);
  EXPECT_TRUE(replay(calls, *shard).has_value());
  EXPECT_TRUE(recorder.stop().calls.empty());
  calls.tokens ^= 1;
  EXPECT_EQ(replay(calls, *shard).error().kind, ErrorKind::kInternal);
}

TEST_F(BenchRun, SaysWhatInvarianceCostsWhereAsked) {
  BenchCommand both = command();
  both.invariance_cost = true;
  const auto ran = bench(both);
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  for (const char* phase : {"prefill", "decode"}) {
    const Json cost = result()["invariance_cost"][phase];
    EXPECT_LE(cost["min"], cost["median"]);
    EXPECT_LE(cost["median"], cost["max"]);
    EXPECT_GT(cost["min"].get<double>(), -1.0);
  }
}

TEST_F(BenchRun, RunsWithBucketsThatAreLongerThanThePrompts) {
  BenchCommand buckets = command();
  buckets.shape = {.batch = 1, .prompt_tokens = 3, .new_tokens = 20};
  buckets.engine.token_buckets = "8";
  const auto ran = bench(buckets);
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  EXPECT_EQ(result()["prefill_chunk"], 11);  // half of the 22 tokens of a slot
}

TEST_F(BenchRun, RefusesSlotsThatAreTooSmall) {
  BenchCommand small = command();
  small.engine.capacity = 12;  // 10 + 4 − 1 are needed
  const auto ran = bench(small);
  ASSERT_FALSE(ran.has_value());
  EXPECT_EQ(ran.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(ran.error().message, HasSubstr("found 12 tokens, expected 13"));
}

TEST_F(BenchRun, RefusesAnOutputThatCannotBeWritten) {
  BenchCommand nowhere = command();
  nowhere.json = folder_ / "absent" / "out.json";
  EXPECT_EQ(bench(nowhere).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::launcher
