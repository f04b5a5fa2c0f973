#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "engine/drivers.h"
#include "launcher/cli/command_line.h"
#include "tests/launcher/plan_run.h"

namespace lockstep::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::filesystem::path kPlans = LOCKSTEP_PLANS_DIR;
const std::filesystem::path kShapes = LOCKSTEP_SHAPES_DIR;

Result<Command> parse(std::vector<const char*> words) {
  words.insert(words.begin(), {"lockstep", "plan"});
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

std::string contents_of(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_F(PlanRun, RefusesDegreesThatNeuronDevicesDoNotHave) {
  if (!engine::find_driver("neuron").has_value()) GTEST_SKIP() << "a build without neuron";
  PlanCommand command;
  command.engine.backend_options = {{"neuron-target", "inf2"}};
  command.max_tp = 9;
  const Json json = planned(kNineHeads, command);
  EXPECT_EQ(json["memory_budget"], int64_t{16} << 30);
  EXPECT_EQ(json["neuron_target"], "inf2");
  EXPECT_THAT(text(), HasSubstr("3  does not work: [engine/inspect] --neuron-target: found 3 ranks on inf2, expected "
                                "1, 2, 4, 8, 24"));
  EXPECT_THAT(text(), AllOf(HasSubstr("5-7  does not work"), HasSubstr("   9  does not work"),
                            HasSubstr("inf2: degrees 1, 2, 4, 8, 24 and 16.00 GiB of memory for a core")));
}

TEST_F(PlanRun, TellsUnevenHeadsAndSharedOnesOfEveryDegree) {
  const Json plan = planned(kNineHeads, small_plan(9));
  ASSERT_EQ(plan["degrees"].size(), 9u);
  const Json& two = plan["degrees"][1];
  EXPECT_EQ(two["works"], true);
  EXPECT_EQ(two["query_heads"], (Json{{"least", 4}, {"most", 5}}));
  EXPECT_EQ(two["key_value_heads"], (Json{{"least", 2}, {"most", 2}}));
  EXPECT_EQ(two["shared_key_value_heads"], Json::array({1}));
  EXPECT_EQ(plan["degrees"][2]["shared_key_value_heads"], Json::array());
  EXPECT_EQ(plan["degrees"][8]["query_heads"], (Json{{"least", 1}, {"most", 1}}));  // more ranks than key/value heads
  EXPECT_EQ(plan["degrees"][8]["shared_key_value_heads"], Json::array({0, 1, 2}));
  EXPECT_THAT(text(), AllOf(HasSubstr(" 4-5 "), HasSubstr(" 0-2 "), Not(HasSubstr("does not work"))));
}

TEST_F(PlanRun, PassesOnWhyADegreeDoesNotWork) {
  const Json plan = planned(kNineHeads, small_plan(12));
  EXPECT_EQ(plan["largest_degree"], 9);
  for (const size_t at : {9u, 10u, 11u}) {
    EXPECT_EQ(plan["degrees"][at]["works"], false);
    EXPECT_THAT(plan["degrees"][at]["reason"].get<std::string>(), HasSubstr("expected 1 to 9 (9 query heads"));
  }
  EXPECT_THAT(text(), HasSubstr("10-12  does not work: [shards/partition] cannot divide the model: found 10 ranks"));
}

TEST_F(PlanRun, TellsTheSpeedOfEveryDegreeInPartsThatAddUp) {
  PlanCommand command = small_plan(4);
  command.machine.bandwidth = command.machine.flops = 1.0;
  const Json plan = planned(kNineHeads, command);
  for (const Json& degree : plan["degrees"]) {
    const Json& predicted = degree["predicted"];
    double step = 0;
    for (const auto& [name, seconds] : predicted["decode_step"].items()) step += seconds.get<double>();
    EXPECT_NEAR(step, predicted["tpot_s"].get<double>(), 1e-15);
    EXPECT_DOUBLE_EQ(predicted["communication_share"]["decode"],
                     predicted["decode_step"]["communication_s"].get<double>() / predicted["tpot_s"].get<double>());
    EXPECT_DOUBLE_EQ(predicted["decode_tokens_per_s"], 1 / predicted["tpot_s"].get<double>());
    EXPECT_GT(predicted["prefill_tokens_per_s"], 0.0);
    EXPECT_GT(predicted["ttft_s"], predicted["tpot_s"]);
    EXPECT_DOUBLE_EQ(degree["efficiency"]["decode"],
                     degree["speed_up"]["decode"].get<double>() / degree["degree"].get<double>());
  }
  EXPECT_EQ(plan["degrees"][0]["predicted"]["communication_share"]["decode"], 0.0);
  EXPECT_EQ(plan["degrees"][0]["speed_up"]["prefill"], 1.0);
}

TEST_F(PlanRun, ChoosesTheFastestAndSaysWhatMoreRanksWouldSpend) {
  PlanCommand command = small_plan(3);
  command.machine.bandwidth = 0.001;  // reading is everything
  command.machine.link_latency_us = 0.0;
  EXPECT_EQ(planned(kNineHeads, command)["best"]["degree"], 3);
  EXPECT_THAT(text(), HasSubstr("the most that was looked at (--max-tp)"));
  command.machine.bandwidth = 1000.0;
  command.machine.link_latency_us = 1000.0;  // messages are everything
  EXPECT_EQ(planned(kNineHeads, command)["best"]["degree"], 1);
  EXPECT_THAT(text(), HasSubstr("TP 2 spends 100 % of a step in collectives"));
}

// A degree whose heads fall unevenly may have to wait for one rank as long as a smaller one does.
TEST_F(PlanRun, DoesNotTakeRanksThatBringNothing) {
  PlanCommand command = small_plan(4);
  command.machine.bandwidth = 0.001;
  command.machine.link_latency_us = 0.0;
  EXPECT_EQ(planned(kNineHeads, command)["best"]["degree"], 3);
  EXPECT_THAT(text(), HasSubstr("TP 4 spends 0 % of a step in collectives and computes no faster"));
}

TEST_F(PlanRun, HoldsMemoryAgainstTheBudget) {
  PlanCommand command = small_plan(3);
  command.prompt_tokens = 8;
  command.engine.slots = 8;
  const Json all = planned(kNineHeads, command);
  EXPECT_TRUE(all["degrees"][0]["fits"].is_null());
  const auto needed = [&](size_t at) { return all["degrees"][at]["memory"]["total"].get<int64_t>(); };
  command.engine.memory_budget = Bytes(needed(0) - 1);
  const Json plan = planned(kNineHeads, command);
  EXPECT_EQ(plan["degrees"][0]["fits"], false);
  EXPECT_EQ(plan["degrees"][1]["fits"], needed(1) < needed(0));
  EXPECT_NE(plan["best"]["degree"], 1);
  EXPECT_THAT(plan["degrees"][0]["how_to_fit"].get<std::string>(),
              AllOf(HasSubstr("1 B over the budget"), HasSubstr("--max-seq-len 63"), HasSubstr("--batch-size 7"),
                    HasSubstr("--dtype bfloat16"), HasSubstr("more ranks")));
  EXPECT_THAT(text(), AllOf(HasSubstr("OVER"), HasSubstr("TP 1 does not fit the budget")));
  command.engine.memory_budget = Bytes(1);
  EXPECT_TRUE(planned(kNineHeads, command)["best"].is_null());
  EXPECT_THAT(text(), HasSubstr("best: none fits the budget"));
}

// The suggested change is sufficient.
TEST_F(PlanRun, FitsTheBudgetAsItSays) {
  PlanCommand command = small_plan(1);
  command.prompt_tokens = 8;
  command.engine.slots = 8;
  const auto needed = planned(kNineHeads, command)["degrees"][0]["memory"]["total"].get<int64_t>();
  command.engine.memory_budget = Bytes(needed - 8000);
  const std::string hint = planned(kNineHeads, command)["degrees"][0]["how_to_fit"];
  const std::string option = "--max-seq-len ";
  ASSERT_THAT(hint, HasSubstr(option));
  command.engine.capacity = std::stoll(hint.substr(hint.find(option) + option.size()));
  EXPECT_EQ(planned(kNineHeads, command)["degrees"][0]["fits"], true);
}

TEST_F(PlanRun, CostsWindowsWhatTheyNeed) {
  PlanCommand command = small_plan(1);
  command.engine.prefill_chunk = 4;
  command.engine.capacity = 64;
  const int64_t windowed = planned(model::kTinyGemma3, command)["degrees"][0]["memory"]["cache"];
  command.engine.capacity = 32;
  const int64_t shorter = planned(model::kTinyGemma3, command)["degrees"][0]["memory"]["cache"];
  // Of 6 layers one sees everything: keys and values of 1 head of 4.
  EXPECT_EQ(windowed - shorter, 32 * 2 * 4 * 4);
}

TEST_F(PlanRun, DividesExpertsBothWays) {
  PlanCommand command = small_plan(2);
  const Json columns = planned(model::kTinyMixtral, command)["degrees"][1];
  EXPECT_EQ(columns["experts"], (Json{{"least", 4}, {"most", 4}}));
  EXPECT_EQ(columns["mlp_columns"], (Json{{"least", 8}, {"most", 8}}));
  EXPECT_THAT(text(), HasSubstr("expert cols"));
  command.engine.partition.experts = partition::ExpertSplit::kWhole;
  const Json whole = planned(model::kTinyMixtral, command)["degrees"][1];
  EXPECT_EQ(whole["experts"], (Json{{"least", 2}, {"most", 2}}));
  EXPECT_EQ(whole["mlp_columns"], (Json{{"least", 16}, {"most", 16}}));
  EXPECT_GT(whole["predicted"]["decode_step"]["weights_s"], columns["predicted"]["decode_step"]["weights_s"]);
}

TEST_F(PlanRun, PrintsEachRankOfADegree) {
  PlanCommand command = small_plan(3);
  command.detail = 2;
  planned(kNineHeads, command);
  EXPECT_THAT(text(), AllOf(HasSubstr("each rank at TP 2"), HasSubstr("0:5"), HasSubstr("5:9"), HasSubstr("1:3")));
}

TEST_F(PlanRun, ComparesTheModesOfKeyValueHeadsAndSaysWhichCannotBe) {
  PlanCommand command = small_plan(3);
  command.detail = 2;
  command.engine.partition.gqa = partition::GqaMode::kBatch;
  command.engine.slots = 2;
  const Json plan = planned(kNineHeads, command);
  EXPECT_EQ(plan["degrees"][1]["gqa"], "batch");
  EXPECT_EQ(plan["degrees"][2]["gqa"], "heads");
  EXPECT_THAT(plan["degrees"][2]["gqa_fallback"], HasSubstr("found 2 slots, expected a multiple of 3 ranks"));
  ASSERT_EQ(plan["gqa_modes"].size(), 4u);
  EXPECT_EQ(plan["gqa_modes"][0]["runs_as"], "replicated");
  EXPECT_GT(plan["gqa_modes"][1]["cache"], plan["gqa_modes"][3]["cache"]);
  EXPECT_THAT(text(), AllOf(HasSubstr("TP 3 runs with --gqa heads, not batch"), HasSubstr("key/value heads at TP 2")));
}

TEST_F(PlanRun, SaysWhatItAssumed) {
  planned(model::kTinyLlama, small_plan(1));
  EXPECT_THAT(text(), AllOf(HasSubstr("assumed"), HasSubstr("--measure"), HasSubstr("cost nothing")));
  PlanCommand command = small_plan(1);
  command.machine.bandwidth = command.machine.flops = command.machine.link_bandwidth = 10.0;
  command.machine.link_latency_us = 1.0;
  planned(model::kTinyLlama, command);
  EXPECT_THAT(text(), AllOf(Not(HasSubstr("assumed")), HasSubstr("GB/s of a rank: 10, given")));
}

TEST_F(PlanRun, MeasuresThisMachine) {
  PlanCommand command = small_plan(1);
  command.machine.measure = true;
  command.machine.probe_bytes = Bytes(1 << 20);
  const Json plan = planned(model::kTinyLlama, command);
  EXPECT_GT(plan["machine"]["host"]["read_bytes_per_s"], 0.0);
  EXPECT_GT(plan["machine"]["host"]["flops_per_s"], 0.0);
  EXPECT_THAT(text(), HasSubstr("measured"));
}

Error refusal_of(const char* config, const PlanCommand& command) {
  const model::TinyModel model(config);
  PlanCommand changed = command;
  changed.model.directory = model.path();
  return run(changed).result.error();
}

TEST(Plan, RefusesWhatCannotBe) {
  PlanCommand command = small_plan(2);
  command.engine.partition.experts = partition::ExpertSplit::kWhole;
  EXPECT_EQ(refusal_of(model::kTinyLlama, command).kind, ErrorKind::kUnsupported);
  command = small_plan(2);
  command.prompt_tokens = 100;  // of 64 positions
  EXPECT_THAT(refusal_of(model::kTinyLlama, command).message, HasSubstr("found 103 tokens"));
  command = small_plan(2);
  command.engine.capacity = 65;
  EXPECT_EQ(refusal_of(model::kTinyLlama, command).kind, ErrorKind::kInvalidArgument);
  command = small_plan(2);
  command.detail = 3;
  EXPECT_THAT(refusal_of(model::kTinyLlama, command).message, HasSubstr("--detail: found 3, expected 1 to 2"));
  command = small_plan(3);
  command.detail = 3;
  EXPECT_EQ(refusal_of(model::kTinyLlama, command).kind, ErrorKind::kUnsupported);
  command = small_plan(2);
  command.machine.rank_cores = 1;
  EXPECT_THAT(refusal_of(model::kTinyLlama, command).message, HasSubstr("--rank-cores"));
  command = small_plan(2);
  command.machine.probe = "absent.json";
  EXPECT_EQ(refusal_of(model::kTinyLlama, command).kind, ErrorKind::kNotFound);
  command = small_plan(2);
  command.json = "absent/plan.json";
  EXPECT_EQ(refusal_of(model::kTinyLlama, command).kind, ErrorKind::kInvalidArgument);
}

// A recorded machine and a public shape: the whole output, once checked by hand.
TEST(Plan, PrintsTheRecordedPage) {
  PlanCommand command;
  command.config = kShapes / "smollm2-135m.json";
  command.max_tp = 10;
  command.machine.probe = kPlans / "two_cores.json";
  command.machine.rank_cores = 1;
  command.engine.memory_budget = Bytes(200'000'000);
  const Printed printed = run(command);
  ASSERT_TRUE(printed.result.has_value()) << printed.result.error().message;
  const std::string below_path = printed.text.substr(printed.text.find('\n') + 1);
  EXPECT_EQ(below_path, contents_of(kPlans / "smollm2_of_two_cores.txt"));
}

// 134.5 million weights of 2 bytes at 10 GB/s for each of the ranks, by hand: all linear weights and the tied head,
// once.
TEST(Plan, PredictsTheRecordedMachineByHand) {
  PlanCommand command;
  command.config = kShapes / "smollm2-135m.json";
  command.max_tp = 1;
  command.machine.probe = kPlans / "two_cores.json";
  const std::filesystem::path out = std::filesystem::path(::testing::TempDir()) / "lockstep_plan_by_hand.json";
  command.json = out;
  ASSERT_TRUE(run(command).result.has_value());
  const Json step = Json::parse(std::ifstream(out))["degrees"][0]["predicted"]["decode_step"];
  std::filesystem::remove(out);
  constexpr double kLayer = 576 * (2 * 9 * 64 + 2 * 3 * 64) + 3 * 576 * 1536 + 2 * 576;
  constexpr double kWeights = 30 * kLayer + 576 + 49152.0 * 576;
  EXPECT_NEAR(step["weights_s"].get<double>(), 2 * kWeights / 20e9, 1e-9);
  EXPECT_NEAR(step["cache_s"].get<double>(), 30 * (512 + 32) * 2.0 * 3 * 64 * 2 / 20e9, 1e-9);
  EXPECT_EQ(step["communication_s"], 0.0);
}

TEST(PlanCommandLine, ReadsDefaultsAndOptions) {
  const auto defaults = std::get<PlanCommand>(parse({"--model", "dir"}).value());
  EXPECT_EQ(defaults.model.directory, "dir");
  EXPECT_EQ(defaults.max_tp, 8);
  EXPECT_FALSE(defaults.prompt_tokens.has_value());
  EXPECT_FALSE(defaults.machine.measure);
  const auto other = std::get<PlanCommand>(parse({"--config",
                                                  "c.json",
                                                  "--max-tp",
                                                  "16",
                                                  "--batch-size",
                                                  "4",
                                                  "--prompt-tokens",
                                                  "7",
                                                  "--dtype",
                                                  "float32",
                                                  "--expert-parallel",
                                                  "--memory-budget",
                                                  "1000",
                                                  "--bandwidth",
                                                  "10",
                                                  "--flops",
                                                  "20",
                                                  "--link-latency-us",
                                                  "0",
                                                  "--link-bandwidth",
                                                  "2.5",
                                                  "--rank-cores",
                                                  "3",
                                                  "--measure",
                                                  "--probe-mib",
                                                  "2",
                                                  "--detail",
                                                  "2"})
                                               .value());
  EXPECT_EQ(other.config, "c.json");
  EXPECT_EQ(other.max_tp, 16);
  EXPECT_EQ(other.engine.slots, 4);
  EXPECT_EQ(other.prompt_tokens, 7);
  EXPECT_EQ(other.engine.partition.experts, partition::ExpertSplit::kWhole);
  EXPECT_EQ(other.engine.memory_budget, Bytes(1000));
  EXPECT_EQ(other.machine.bandwidth, 10.0);
  EXPECT_EQ(other.machine.link_latency_us, 0.0);
  EXPECT_EQ(other.machine.link_bandwidth, 2.5);
  EXPECT_EQ(other.machine.rank_cores, 3);
  EXPECT_EQ(other.machine.probe_bytes, Bytes(2 << 20));
  EXPECT_EQ(other.detail, 2);
}

TEST(PlanCommandLine, RefusesWhatMakesNoSense) {
  for (const std::vector<const char*>& wrong : {std::vector<const char*>{},
                                                {"--model", "dir", "--config", "c.json"},
                                                {"--model", "dir", "--max-tp", "0"},
                                                {"--model", "dir", "--tp", "2"},
                                                {"--model", "dir", "--bandwidth", "0"},
                                                {"--model", "dir", "--flops", "fast"},
                                                {"--model", "dir", "--of-bandwidth", "1.5"},
                                                {"--model", "dir", "--measure", "--probe", "F.json"},
                                                {"--model", "dir", "--probe-mib", "2"},
                                                {"--model", "dir", "--new-tokens", "1"}}) {
    const auto parsed = parse(wrong);
    ASSERT_FALSE(parsed.has_value()) << (wrong.empty() ? "nothing" : wrong.back());
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lockstep::launcher
