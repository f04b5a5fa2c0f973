#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <variant>

#include "launcher/cli/command_line.h"
#include "launcher/inspect/compile_plan.h"
#include "launcher/inspect/compile_report.h"
#include "tests/model/tiny_models.h"

namespace lockstep::launcher {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

using Steps = std::vector<std::vector<graph::Graph>>;

const device::Capabilities kBackend{.bounded_attention = false};

std::vector<std::string> names_of(const Steps& steps) {
  std::vector<std::string> names;
  for (const std::vector<graph::Graph>& ranks : steps) names.push_back(ranks.front().name);
  return names;
}

/// Of the tiny Llama.
Steps steps_of(CompileCommand command) {
  const model::TinyModel model(model::kTinyLlama, "steps");
  command.model.directory = model.path();
  return plan_compilation(command, kBackend).value().steps;
}

bool puts_out(const std::vector<graph::Graph>& step, std::string_view name) {
  return std::ranges::count(step.front().outputs, name, &graph::Output::name) > 0;
}

TEST(StepsToCompile, AreTheClosedSetOfARun) {
  EXPECT_THAT(names_of(steps_of({})), ElementsAre("prefill", "decode"));
  CompileCommand bucketed;
  bucketed.engine.drafting.tokens = 2;
  bucketed.engine.token_buckets = "16,64";
  bucketed.model.ranks = 2;
  const Steps steps = steps_of(bucketed);
  EXPECT_THAT(names_of(steps),
              ElementsAre("prefill_8", "prefill_32", "decode_16", "decode_64", "verify_16", "verify_64"));
  for (const std::vector<graph::Graph>& ranks : steps) EXPECT_EQ(ranks.size(), 2u);
}

TEST(StepsToCompile, AreThoseOfTheModeThatKeyValueHeadsAreDividedBy) {
  CompileCommand replicated;
  replicated.model.ranks = 2;
  CompileCommand batch = replicated;
  batch.engine.slots = replicated.engine.slots = 2;
  batch.engine.partition.gqa = partition::GqaMode::kBatch;
  EXPECT_NE(steps_of(batch).back(), steps_of(replicated).back());
}

TEST(StepsToCompile, PutOutLogitsWhereTheyAreAskedFor) {
  EXPECT_FALSE(puts_out(steps_of({}).back(), "logits"));
  EXPECT_TRUE(puts_out(steps_of({.logits = true}).back(), "logits"));
}

TEST(StepsToCompile, NeedACapacityThatTheModelHas) {
  const model::TinyModel model(model::kTinyLlama);
  CompileCommand command;
  command.config = model.path() / "config.json";
  command.engine.capacity = 65;
  const auto steps = plan_compilation(command, kBackend);
  ASSERT_FALSE(steps.has_value());
  EXPECT_EQ(steps.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(steps.error().message, HasSubstr("--max-seq-len: found 65, expected 1 to 64"));
}

/// Has prefill, cannot make decode, makes verify.
class ScriptedCompilation final : public device::AheadCompilation {
 public:
  explicit ScriptedCompilation(std::filesystem::path artifact) : artifact_(std::move(artifact)) {}

  device::CompilerFacts facts() const override { return {"scripted-cc", "", "trn1"}; }
  std::vector<std::string> warnings() const override { return {}; }
  size_t steps() const override { return kNames.size(); }
  device::StepModule module(size_t step) const override { return {std::string(kNames.at(step)), {}}; }
  device::CompiledStep compile(size_t step) const override {
    device::CompiledStep compiled{.name = std::string(kNames.at(step)),
                                  .key = {.backend = "scripted", .step = {}, .fields = {{"target", "trn1"}}},
                                  .artifact = Error{ErrorKind::kUnsupported, "[test] cannot: too large\nits log"}};
    const std::lock_guard lock(mutex_);
    asked_.insert(compiled.name);
    if (compiled.name == "decode") return compiled;
    compiled.artifact = device::Artifact{artifact_, compiled.name != "prefill", "from a test"};
    compiled.size = Bytes(2048);
    return compiled;
  }
  Result<Bytes> export_to(const std::filesystem::path&, std::span<const device::CompiledStep>) const override {
    return Bytes(0);
  }

  const std::multiset<std::string>& asked() const { return asked_; }

 private:
  static constexpr std::array<std::string_view, 3> kNames = {"prefill", "decode", "verify"};

  std::filesystem::path artifact_;
  mutable std::mutex mutex_;
  mutable std::multiset<std::string> asked_;
};

class CompileSteps : public ::testing::Test {
 protected:
  std::vector<device::CompiledStep> compile(int jobs) {
    const auto count = [this](const device::CompiledStep& step) { done_.push_back(step.name); };
    return compile_steps(compilation_, jobs, count);
  }

  ScriptedCompilation compilation_{"somewhere/artifact"};
  std::vector<std::string> done_;
};

TEST_F(CompileSteps, AsksForEachOnceAndGoesOnAfterAFailure) {
  for (const int jobs : {1, 2, 9}) {
    const std::vector<device::CompiledStep> steps = compile(jobs);
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(steps[0].status(), "cached");
    EXPECT_EQ(steps[1].status(), "failed");
    EXPECT_EQ(steps[2].status(), "compiled");
    EXPECT_EQ(steps[2].name, "verify");
  }
  for (const char* name : {"prefill", "decode", "verify"}) EXPECT_EQ(compilation_.asked().count(name), 3u);
  EXPECT_EQ(done_.size(), 9u);
}

TEST_F(CompileSteps, AreReportedByLineAndAsJson) {
  std::vector<device::CompiledStep> steps = compile(1);
  steps[2].seconds = 12.34;
  EXPECT_THAT(to_line(steps[1]), AllOf(StartsWith("decode         failed "), EndsWith("s  [test] cannot: too large")));
  EXPECT_THAT(to_line(steps[2]), AllOf(StartsWith("verify         compiled      12.3 s      2.00 KiB  "),
                                       HasSubstr("somewhere/artifact")));
  EXPECT_EQ(to_summary(compilation_.facts(), steps, 1.25),
            "3 graphs for trn1, compiler of unknown version: 1 compiled, 1 cached, 1 failed; 1.2 s");
  const auto json = nlohmann::json::parse(to_json(compilation_.facts(), steps, 1.25));
  EXPECT_EQ(json["version"], "");
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["graphs"][1]["error"], "[test] cannot: too large\nits log");
  EXPECT_EQ(json["graphs"][2]["bytes"], 2048);
  EXPECT_EQ(json["graphs"][2]["key"]["target"], "trn1");
}

Command parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "lockstep");
  return parse_command_line(static_cast<int>(words.size()), words.data()).value();
}

TEST(CompileCommandLine, HasTheOptionsOfModelCompilerAndCache) {
  const auto compile = std::get<CompileCommand>(parsed(
      {"compile", "--config", "c.json", "--tp", "8", "--batch-size", "4", "--neuron-target", "trn2",
       "--neuron-cc-flags-decode", "-O3 --lnc=1", "--jobs", "3", "--retry-failed", "--drafts", "5", "--logits"}));
  EXPECT_EQ(compile.config, "c.json");
  EXPECT_EQ(compile.model.ranks, 8);
  EXPECT_EQ(compile.engine.backend, "neuron");
  EXPECT_THAT(compile.engine.backend_options, ElementsAre(Pair("neuron-cc-flags-decode", "-O3 --lnc=1"),
                                                          Pair("neuron-target", "trn2"), Pair("retry-failed", "true")));
  EXPECT_EQ(compile.jobs, 3);
  EXPECT_EQ(compile.engine.drafting.tokens, 5);
  EXPECT_TRUE(compile.logits);
  const auto exported = std::get<ExportCommand>(parsed({"export", "--model", "m", "--to", "folder"}));
  EXPECT_EQ(exported.to, "folder");
  EXPECT_EQ(exported.compile.model.directory, "m");
  EXPECT_EQ(exported.compile.jobs, 1);
}

TEST(CompileCommandLine, NeedsAModel) {
  const char* words[] = {"lockstep", "compile"};
  const auto command = parse_command_line(2, words);
  ASSERT_FALSE(command.has_value());
  EXPECT_THAT(command.error().message, HasSubstr("--model or --config"));
}

}  // namespace
}  // namespace lockstep::launcher
