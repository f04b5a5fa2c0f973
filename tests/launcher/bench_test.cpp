#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/inspect/machine_description.h"
#include "launcher/cli/command_line.h"
#include "launcher/measure/bench/bench_formulas.h"
#include "launcher/measure/bench/bench_report.h"
#include "launcher/measure/bench/limits_probe.h"
#include "launcher/measure/bench/repeater.h"
#include "tests/launcher/tiny_decode.h"

namespace lockstep::launcher {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

// Per layer: q and o 8·8 each, k and v 8·4 each, MLP 3·8·16: 576 weights. Two norms of 8 a layer, one at the end, the
// head 8·32, and one row of the embedding table for each sequence.
TEST(BenchFormulas, CountTheWeightsOfADecodeStepOnce) {
  constexpr int64_t kWeights = 2 * (576 + 16) + 8 + 256;
  EXPECT_EQ(decode_bytes(tiny_decode(1, 0, /*slots=*/1), {}).weights, (kWeights + 8) * 4);
  EXPECT_EQ(decode_bytes(tiny_decode(1, 0, /*slots=*/3), {.batch = 3}).weights, (kWeights + 3 * 8) * 4);
}

// Keys and values, 2 layers, 1 head of 4, 4 bytes. On average over the decode steps a sequence has 100 + 20 / 2 tokens
// in the cache.
TEST(BenchFormulas, CountTheCacheOfATokenOnEveryRankThatHoldsIt) {
  const BenchShape shape{.prompt_tokens = 100, .new_tokens = 20};
  EXPECT_EQ(decode_bytes(tiny_decode(1, 0, 2), shape).cache, 110 * 2 * 2 * 4 * 4);
  DecodeBytes all;
  for (int rank = 0; rank < 2; ++rank) all += decode_bytes(tiny_decode(2, rank, 2), shape);
  EXPECT_EQ(all.cache, 110 * 2 * (2 * 2 * 4 * 4));  // both ranks need the one key/value head
}

TEST(BenchFormulas, CountTheWindowOfALayerThatHasOne) {
  checkpoint::ModelSpec spec = tiny_spec();
  spec.windows = {10, 0};
  const auto graphs = shards::build_graphs(spec, partition::make_partition(spec, 1).value(), 0,
                                           {.slots = 1, .chunk = 4, .capacity = 200}, {})
                          .value();
  EXPECT_EQ(decode_bytes(graphs.decode.back(), {.prompt_tokens = 100, .new_tokens = 20}).cache, (110 + 10) * 2 * 4 * 4);
  spec.windows = {6, 0};
  spec.pinned_sinks = 4;  // attended to in addition to the window
  const auto pinned = shards::build_graphs(spec, partition::make_partition(spec, 1).value(), 0,
                                           {.slots = 1, .chunk = 4, .capacity = 200}, {})
                          .value();
  EXPECT_EQ(decode_bytes(pinned.decode.back(), {.prompt_tokens = 100, .new_tokens = 20}).cache, (110 + 10) * 2 * 4 * 4);
  spec.windows = {1, 0};
  spec.pinned_sinks = 1;
  // 4 tokens: 10 pairs in the layer without a window; 1 + 2 + 2 + 2 in the other.
  const double all = flops_of_token(tiny_spec(), {.prompt_tokens = 4}).value().prefill;
  EXPECT_DOUBLE_EQ(flops_of_token(spec, {.prompt_tokens = 4}).value().prefill, all - 4.0 * 8 * (10 - 7) / 4);
}

TEST(BenchFormulas, CountTheExpertsThatAreChosen) {
  checkpoint::ModelSpec spec = tiny_spec();
  spec.mlp = checkpoint::Mlp::kExperts;
  spec.experts = 4;
  spec.experts_per_token = 1;
  const auto decode = shards::build_graphs(spec, partition::make_partition(spec, 1).value(), 0,
                                           {.slots = 1, .chunk = 4, .capacity = 16}, {})
                          .value()
                          .decode.back();
  const double all = static_cast<double>(graph::cost_of(decode).weight_bytes);
  const double expert = 3 * 8 * 16 * 4, layers = 2;
  EXPECT_DOUBLE_EQ(decode_bytes(decode, {.batch = 1}).weights, all - layers * 3 * expert);
  const double row = 8 * 4;  // of the embedding: one a sequence
  EXPECT_DOUBLE_EQ(decode_bytes(decode, {.batch = 2}).weights, all + row - layers * 4 * expert * 0.5625);
}

TEST(BenchFormulas, ShareTheWeightsOfAStepBetweenItsTokens) {
  const DecodeBytes all{.weights = 6000, .cache = 1100};
  EXPECT_DOUBLE_EQ(bytes_per_token(all, {.batch = 1, .prompt_tokens = 100, .new_tokens = 20}), 6000 + 1100);
  EXPECT_DOUBLE_EQ(bytes_per_token(all, {.batch = 4, .prompt_tokens = 100, .new_tokens = 20}), 1500 + 1100);
}

TEST(BenchFormulas, CountTwoOperationsForEachMultiplyAddOfAPrompt) {
  // 3 tokens: 2·3·(2·576) of linear layers, 2·8·32 of the head for the last row, and in each of 2 layers, for each of 2
  // heads, 1 + 2 + 3 = 6 pairs of tokens with 2·4 for the score and 2·4 for the value.
  constexpr double kPrompt = 2 * 3 * 1152 + 2 * 8 * 32 + 2 * 2 * 6 * (8 + 8);
  EXPECT_DOUBLE_EQ(flops_of_token(tiny_spec(), {.prompt_tokens = 3}).value().prefill, kPrompt / 3);
}

// One token: the linear layers and the head, and attention to 3 + 4 / 2 tokens.
TEST(BenchFormulas, CountTheOperationsOfATokenAtTheMeanLengthWhateverTheBatch) {
  constexpr double kToken = 2 * 1152 + 2 * 8 * 32 + 2 * 2 * 5 * (8 + 8);
  for (const int64_t batch : {1, 7}) {
    const BenchShape shape{.batch = batch, .prompt_tokens = 3, .new_tokens = 4};
    EXPECT_DOUBLE_EQ(flops_of_token(tiny_spec(), shape).value().decode, kToken);
  }
}

TEST(BenchFormulas, CountTheExpertsOfATokenAndTheRouter) {
  checkpoint::ModelSpec spec = tiny_spec();
  spec.mlp = checkpoint::Mlp::kExperts;
  spec.experts = 4;
  spec.experts_per_token = 3;
  const BenchShape shape{.prompt_tokens = 3, .new_tokens = 4};
  // In each of 2 layers: 3 experts in the place of one MLP, and the router.
  EXPECT_DOUBLE_EQ(flops_of_token(spec, shape).value().decode,
                   flops_of_token(tiny_spec(), shape).value().decode + 2 * 2 * (2 * 3 * 8 * 16 + 8 * 4));
}

TEST(BenchFormulas, AreToldInHelpAndTable) {
  EXPECT_THAT(std::string(formulas()), HasSubstr("bytes per token"));
  const char* argv[] = {"lockstep", "bench", "--help"};
  EXPECT_THAT(std::get<PrintedText>(parse_command_line(3, argv).value()).text, HasSubstr(std::string(formulas())));
}

TimePoint at(int ms) { return TimePoint(std::chrono::milliseconds(ms)); }

TEST(GroupRate, PutsRanksOfOneOwnerOnOneClockAndAddsOwners) {
  const std::vector<std::string> owners = {"a", "a", "b"};
  // Host a: 300 between 0 and 20 ms. Host b has another clock: 100 in 10 ms.
  const std::vector<probe::Sample> samples = {
      {at(0), at(10), 100.0}, {at(10), at(20), 200.0}, {at(5000), at(5010), 100.0}};
  EXPECT_DOUBLE_EQ(group_rate(owners, samples), 300 / 0.020 + 100 / 0.010);
}

TEST(SpreadOf, GivesTheMiddleOfTheValues) {
  const Spread odd = spread_of({5, 1, 3});
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.max, 5);
  EXPECT_EQ(spread_of({4, 1, 3, 2}).median, 2.5);
}

/// One rank; decode at 80 of 100 bytes/s, prefill at 300 of 1000 FLOP/s.
BenchReport small_report() {
  Repetition repetition{.prefill_s = 2.0,
                        .decode_s = 1.0,
                        .ttft_s = 2.5,
                        .tpot_s = 0.25,
                        .decode_tokens = 4,
                        .ranks = {{.prefill = {1.5, 0.25, 0.25}, .decode = {0.5, 0.25, 0.125}}},
                        .limits = {100.0, 1000.0, "fast reads", "fast dots"}};
  return {.model = "tiny",
          .flops_precision = "float32",
          .shape = {.batch = 1, .prompt_tokens = 6, .new_tokens = 5},
          .bytes_per_token = 20.0,
          .flops_per_token = 100.0,
          .repetitions = {repetition},
          .memory = {{}},
          .cores = {{}},
          .startup = {{"load", 0.5}}};
}

TEST(BenchReport, DividesSpeedsByTheLimitsBesideThem) {
  const BenchReport report = small_report();
  const Json json = Json::parse(to_json(report));
  EXPECT_DOUBLE_EQ(json["decode"]["tokens_per_s"], 4.0);
  EXPECT_DOUBLE_EQ(json["decode"]["of_bandwidth"], 0.8);
  EXPECT_DOUBLE_EQ(json["prefill"]["tokens_per_s"], 3.0);
  EXPECT_DOUBLE_EQ(json["prefill"]["of_peak"], 0.3);
  EXPECT_DOUBLE_EQ(json["ranks"][0]["compute_s"], 2.0);
  EXPECT_DOUBLE_EQ(json["ranks"][0]["communication_s"], 0.5);
  EXPECT_DOUBLE_EQ(json["ranks"][0]["waiting_s"], 0.375);
  EXPECT_EQ(json["bad_probe"], false);
  EXPECT_THAT(to_table(report), Not(HasSubstr("WARNING")));
}

TEST(BenchReport, TellsColdWarmAndSteadyFirstTokens) {
  BenchReport report = small_report();
  report.startup = {{"load", 0.5}, {"session", 0.25}};
  report.very_first_ttft_s = 4.0;
  Json first = Json::parse(to_json(report))["first_token"];
  EXPECT_DOUBLE_EQ(first["cold_s"], 4.75);
  EXPECT_DOUBLE_EQ(first["warm_s"], 2.5);
  EXPECT_TRUE(first["steady_s"].is_null());  // there is one repetition only
  EXPECT_THAT(to_table(report), HasSubstr("first token after 4750 ms cold (start-up included), 2500 ms warm\n"));
  for (const double ttft : {2.25, 1.0, 2.0}) {
    report.repetitions.push_back(report.repetitions.front());
    report.repetitions.back().ttft_s = ttft;
  }
  first = Json::parse(to_json(report))["first_token"];
  EXPECT_DOUBLE_EQ(first["warm_s"], 2.5);
  EXPECT_DOUBLE_EQ(first["steady_s"], 2.0);
  EXPECT_THAT(to_table(report), HasSubstr("2500 ms warm, 2000 ms steady\n"));
}

TEST(BenchReport, PutsThePredictionBesideTheMeasurement) {
  BenchReport report = small_report();
  report.world_size = 2;
  report.repetitions.front().ranks.resize(2);
  report.memory.resize(2);
  report.cores.resize(2);
  EXPECT_EQ(measured_machine(report).of_each(2), (cost::Rates{50.0, 500.0}));
  report.collectives = {{1024, 2e-6}};
  EXPECT_EQ(measured_machine(report).link, cost::link_from(report.collectives, 2));
  BenchReport of_devices = report;
  of_devices.probes_devices = true;  // which exchange by other links than those that were timed
  EXPECT_EQ(measured_machine(of_devices).link, inspect::assumed_link());
  report.predicted = {.decode = {.weights_s = 0.15, .communication_s = 0.05},
                      .prefill = {.compute_s = 1.0},
                      .decode_tokens_per_s = 5,
                      .prefill_tokens_per_s = 6,
                      .tpot_s = 0.2,
                      .ttft_s = 1.2};
  const Json json = Json::parse(to_json(report));
  EXPECT_EQ(json["predicted"], (Json{{"decode_tokens_per_s", 5.0},
                                     {"prefill_tokens_per_s", 6.0},
                                     {"tpot_s", 0.2},
                                     {"ttft_s", 1.2},
                                     {"communication_share", {{"decode", 0.25}, {"prefill", 0.0}}}}));
  EXPECT_EQ(json["probe"]["collectives"], (Json::array({{{"bytes", 1024}, {"seconds", 2e-6}}})));
  EXPECT_THAT(to_table(report), HasSubstr("predicted: prefill 6 tokens/s, first token 1200 ms, decode 5 tokens/s"));
}

TEST(BenchReport, CallsAProbeBadThatWasOutrun) {
  BenchReport report = small_report();
  report.repetitions.resize(3, report.repetitions.front());
  for (int i : {0, 1}) report.repetitions[i].decode_s = 1.0 / 1.27;  // 101.6 of 100 bytes/s: noise
  EXPECT_THAT(report.void_ratios(), IsEmpty());
  report.repetitions[0].decode_s = 1.0 / 5;  // the machine became faster after its probe, once
  EXPECT_THAT(report.void_ratios(), IsEmpty());
  EXPECT_THAT(to_table(report), ContainsRegex("of bandwidth .* \\(some void\\)\n"));
  EXPECT_EQ(Json::parse(to_json(report))["repetitions"][0]["void"][0], "of_bandwidth");
  EXPECT_THAT(Json::parse(to_json(report))["repetitions"][1]["void"], IsEmpty());
  for (int i : {0, 1}) report.repetitions[i].decode_s = 1.0 / 1.28;  // 102.4
  EXPECT_THAT(report.void_ratios(), Contains("of_bandwidth"));
  EXPECT_EQ(Json::parse(to_json(report))["bad_probe"], true);
  EXPECT_EQ(Json::parse(to_json(report))["void"][0], "of_bandwidth");
  EXPECT_THAT(to_table(report), ContainsRegex("of bandwidth .* void\n"));
  EXPECT_THAT(to_table(report), HasSubstr("WARNING"));
  report.repetitions.erase(report.repetitions.begin(), report.repetitions.begin() + 2);
  report.repetitions.front().prefill_s = 0.5;  // 1200 of 1000 FLOP/s
  EXPECT_THAT(report.void_ratios(), ElementsAre("of_peak"));
}

TEST(BenchReport, DividesTheTimesOfInvariantSumsByThoseOfFastOnesBesideThem) {
  BenchReport report = small_report();
  EXPECT_FALSE(Json::parse(to_json(report)).contains("invariance_cost"));
  for (const double fast : {0.8, 1.0, 0.5}) {
    Repetition repetition = report.repetitions.front();
    repetition.fast = PhaseSeconds{.prefill = 2.0, .decode = fast};
    report.repetitions.push_back(repetition);
  }
  report.repetitions.erase(report.repetitions.begin());
  const Json json = Json::parse(to_json(report));
  EXPECT_DOUBLE_EQ(json["repetitions"][2]["invariance_cost"]["decode"], report.repetitions[2].decode_s / 0.5 - 1);
  EXPECT_DOUBLE_EQ(json["repetitions"][0]["invariance_cost"]["prefill"], report.repetitions[0].prefill_s / 2 - 1);
  const Json cost = json["invariance_cost"];
  EXPECT_DOUBLE_EQ(cost["prefill"]["median"], 0.0);
  EXPECT_DOUBLE_EQ(cost["decode"]["min"], 0.0);
  EXPECT_DOUBLE_EQ(cost["decode"]["median"], 0.25);
  EXPECT_DOUBLE_EQ(cost["decode"]["max"], 1.0);
  EXPECT_THAT(to_table(report), HasSubstr("+25.0 % (+0.0 … +100.0) of decode"));
}

TEST(RowTimes, KeepWhenEachTokenOfARowWasMade) {
  ManualClock clock;
  RowTimes times(/*rows=*/2, clock.now());
  const TimePoint submitted = clock.now();
  for (const int64_t row : {0, 1, 0}) {
    clock.advance(std::chrono::milliseconds(10));
    EXPECT_EQ(times.on_token(RequestId(row), {.id = 3, .made = clock.now()}), actors::Verdict::kContinue);
  }
  times.on_finish(RequestId(0), generation::FinishReason::kLength, std::nullopt);
  EXPECT_FALSE(times.error().has_value());
  ASSERT_EQ(times.rows().size(), 2u);
  EXPECT_EQ(times.rows()[0].submitted, submitted);
  EXPECT_EQ(times.rows()[1].submitted, submitted);
  EXPECT_THAT(times.rows()[0].latencies(), ElementsAre(std::chrono::milliseconds(10), std::chrono::milliseconds(20)));
  EXPECT_THAT(times.rows()[1].latencies(), ElementsAre(std::chrono::milliseconds(20)));
}

TEST(RowTimes, KeepTheFirstErrorOfARow) {
  RowTimes times(/*rows=*/2, ManualClock().now());
  times.on_finish(RequestId(1), generation::FinishReason::kError, Error{ErrorKind::kPeerLost, "first"});
  times.on_finish(RequestId(0), generation::FinishReason::kError, Error{ErrorKind::kInternal, "second"});
  ASSERT_TRUE(times.error().has_value());
  EXPECT_EQ(times.error()->message, "first");
}

TEST(Pauses, AreTakenOutOfTimesOfStepsAndTokens) {
  const std::vector<Pause> pauses = {{at(20), std::chrono::milliseconds(5)}, {at(45), std::chrono::milliseconds(10)}};
  const std::vector<trace::StepTimes> steps = {
      {.begin = at(10), .end = at(20)}, {.begin = at(26), .end = at(45)}, {.begin = at(56), .end = at(60)}};
  const std::vector<trace::StepTimes> shifted = without(pauses, steps);
  EXPECT_EQ(shifted[0], steps[0]);
  EXPECT_EQ(shifted[1].begin, at(21));
  EXPECT_EQ(shifted[1].end, at(40));
  EXPECT_EQ(shifted[2].begin, at(41));
  EXPECT_EQ(shifted[2].end, at(45));
  EXPECT_THAT(without(pauses, {.submitted = at(0), .made = {at(20), at(46), at(60)}}).made,
              ElementsAre(at(20), at(31), at(45)));
}

Result<Command> parse(std::vector<const char*> words) {
  words.insert(words.begin(), {"lockstep", "bench"});
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(BenchCommandLine, ReadsDefaultsAndOptions) {
  const auto defaults = std::get<BenchCommand>(parse({"--model", "dir"}).value());
  EXPECT_EQ(defaults.model.directory, "dir");
  EXPECT_FALSE(defaults.random_weights);
  EXPECT_EQ(defaults.shape, (BenchShape{.batch = 1, .prompt_tokens = 512, .new_tokens = 64}));
  EXPECT_EQ(defaults.repeats, 5);
  const auto other = std::get<BenchCommand>(parse({"--random-weights",
                                                   "--config",
                                                   "c.json",
                                                   "--prompt-tokens",
                                                   "7",
                                                   "--new-tokens",
                                                   "3",
                                                   "--batch-size",
                                                   "4",
                                                   "--repeats",
                                                   "9",
                                                   "--warmup",
                                                   "0",
                                                   "--replay",
                                                   "--probe-mib",
                                                   "2",
                                                   "--tp",
                                                   "2",
                                                   "--launch",
                                                   "threads"})
                                                .value());
  EXPECT_TRUE(other.random_weights);
  EXPECT_EQ(other.config, "c.json");
  EXPECT_EQ(other.shape, (BenchShape{.batch = 4, .prompt_tokens = 7, .new_tokens = 3}));
  EXPECT_EQ(other.repeats, 9);
  EXPECT_EQ(other.warmup, 0);
  EXPECT_FALSE(defaults.replay);
  EXPECT_TRUE(other.replay);
  EXPECT_EQ(other.probe_bytes, Bytes(2 << 20));
  EXPECT_EQ(other.run.launch, Launch::kThreads);
}

TEST(BenchCommandLine, WantsAModelOrRandomWeightsWithAConfig) {
  for (const std::vector<const char*>& wrong : {std::vector<const char*>{},
                                                {"--random-weights"},
                                                {"--config", "c.json"},
                                                {"--model", "dir", "--random-weights", "--config", "c.json"},
                                                {"--model", "dir", "--new-tokens", "1"},
                                                {"--model", "dir", "--repeats", "0"},
                                                {"--model", "dir", "--invariance-cost", "--numerics", "fast"},
                                                {"--model", "dir", "--prompt", "text"}}) {
    const auto parsed = parse(wrong);
    ASSERT_FALSE(parsed.has_value()) << (wrong.empty() ? "nothing" : wrong.back());
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lockstep::launcher
