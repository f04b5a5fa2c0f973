#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <variant>

#include "launcher/inspect/ahead.h"
#include "launcher/inspect/compile_report.h"
#include "tests/launcher/tiny_models.h"

namespace lockstep::launcher {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<std::string> names_of(const std::vector<neuron::LoweredStep>& steps) {
  std::vector<std::string> names;
  for (const neuron::LoweredStep& step : steps) names.push_back(step.module.name);
  return names;
}

/// Of the tiny Llama.
std::vector<neuron::LoweredStep> steps_of(CompileCommand command) {
  const TinyModel model(kTinyLlama, "steps");
  command.model.model = model.path();
  return plan_compilation(command).value().steps;
}

bool puts_out(const neuron::LoweredStep& step, std::string_view name) {
  return std::ranges::count(step.signature.outputs, name, &neuron::ModuleOutput::name) > 0;
}

TEST(StepsToCompile, AreTheClosedSetOfARun) {
  EXPECT_THAT(names_of(steps_of({})), ElementsAre("prefill", "decode"));
  CompileCommand bucketed{.drafts = 2};
  bucketed.model.buckets = "16,64";
  bucketed.model.tp = 2;
  const std::vector<neuron::LoweredStep> steps = steps_of(bucketed);
  EXPECT_THAT(names_of(steps), ElementsAre("prefill_8", "prefill_32", "decode_16", "decode_64", "verify"));
  for (const neuron::LoweredStep& step : steps) EXPECT_EQ(step.signature.ranks, 2);
}

TEST(StepsToCompile, AreThoseOfTheModeThatKeyValueHeadsAreDividedBy) {
  CompileCommand replicated;
  replicated.model.tp = 2;
  CompileCommand batch = replicated;
  batch.model.batch_size = replicated.model.batch_size = 2;
  batch.model.gqa = partition::GqaMode::kBatch;
  EXPECT_NE(steps_of(batch).back().module, steps_of(replicated).back().module);
}

TEST(StepsToCompile, WarnOfADegreeThatTheDevicesDoNotHave) {
  std::string three_heads = kTinyLlama;
  three_heads.replace(three_heads.find("heads\": 2"), 9, "heads\": 3");
  const TinyModel model(three_heads);
  CompileCommand command;
  command.model.model = model.path();
  command.model.tp = 3;
  const CompilePlan of_three = plan_compilation(command).value();
  EXPECT_THAT(of_three.warnings, ElementsAre(HasSubstr("found 3 ranks on trn1, expected 1, 2, 8, 16, 32")));
  EXPECT_EQ(of_three.steps.size(), 2u);
  command.model.tp = 2;
  EXPECT_THAT(plan_compilation(command).value().warnings, IsEmpty());
}

TEST(StepsToCompile, PutOutLogitsWhereTheyAreAskedFor) {
  EXPECT_FALSE(puts_out(steps_of({}).back(), "logits"));
  EXPECT_TRUE(puts_out(steps_of({.logits = true}).back(), "logits"));
}

TEST(StepsToCompile, NeedACapacityThatTheModelHas) {
  const TinyModel model(kTinyLlama);
  CompileCommand command;
  command.config = model.path() / "config.json";
  command.model.max_seq_len = 65;
  const auto steps = plan_compilation(command);
  ASSERT_FALSE(steps.has_value());
  EXPECT_EQ(steps.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(steps.error().message, HasSubstr("--max-seq-len: found 65, expected 1 to 64"));
}

/// Has prefill, cannot make decode, makes the rest.
class ScriptedCache final : public device::ArtifactCache {
 public:
  explicit ScriptedCache(std::filesystem::path artifact) : artifact_(std::move(artifact)) {}
  Result<device::Artifact> get(const device::ArtifactKey& key, const device::MakeArtifact&) override {
    const std::lock_guard lock(mutex_);
    asked_.insert(key.step);
    if (key.step == "decode") return Error{ErrorKind::kUnsupported, "[test] cannot: too large\nits log"};
    return device::Artifact{.path = artifact_, .was_made = key.step != "prefill", .origin = "from a test"};
  }
  const std::multiset<std::string>& asked() const { return asked_; }

 private:
  std::filesystem::path artifact_;
  std::mutex mutex_;
  std::multiset<std::string> asked_;
};

class CompileSteps : public ::testing::Test {
 protected:
  CompileSteps() : model_(kTinyLlama), cache_(model_.path() / "artifact") {
    std::ofstream(model_.path() / "artifact") << std::string(2048, 'x');
  }
  std::vector<CompiledStep> compile(int jobs) {
    const auto count = [this](const CompiledStep& step) { done_.push_back(step.name); };
    return compile_steps(compiler_, steps_of({.drafts = 2}), cache_, jobs, count);
  }

  TinyModel model_;
  ScriptedCache cache_;
  neuron::Compiler compiler_ = neuron::Compiler::open({.program = "no-such-compiler"}).value();
  std::vector<std::string> done_;
};

TEST_F(CompileSteps, AsksForEachOnceAndGoesOnAfterAFailure) {
  for (const int jobs : {1, 2, 9}) {
    const std::vector<CompiledStep> steps = compile(jobs);
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(steps[0].status(), "cached");
    EXPECT_EQ(steps[0].size, Bytes(2048));
    EXPECT_EQ(steps[1].status(), "failed");
    EXPECT_EQ(steps[2].status(), "compiled");
    EXPECT_EQ(steps[2].name, "verify");
  }
  for (const char* name : {"prefill", "decode", "verify"}) EXPECT_EQ(cache_.asked().count(name), 3u);
  EXPECT_EQ(done_.size(), 9u);
}

TEST_F(CompileSteps, AreReportedByLineAndAsJson) {
  std::vector<CompiledStep> steps = compile(1);
  steps[2].seconds = 12.34;
  EXPECT_THAT(to_line(steps[1]), AllOf(StartsWith("decode         failed "), EndsWith("s  [test] cannot: too large")));
  EXPECT_THAT(to_line(steps[2]), AllOf(StartsWith("verify         compiled      12.3 s      2.00 KiB  "),
                                       HasSubstr(steps[2].artifact.value().path.string())));
  EXPECT_EQ(to_summary(compiler_, steps, 1.25),
            "3 graphs for trn1, compiler of unknown version: 1 compiled, 1 cached, 1 failed; 1.2 s");
  const auto json = nlohmann::json::parse(to_json(compiler_, steps, 1.25));
  EXPECT_EQ(json["version"], "");
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["graphs"][1]["error"], "[test] cannot: too large\nits log");
  EXPECT_EQ(json["graphs"][2]["bytes"], 2048);
  EXPECT_EQ(json["graphs"][2]["key"]["target"], "trn1");
}

TEST_F(CompileSteps, AreLeftOutOnceTheirEndWasAskedFor) {
  process::ChildStop stop;
  stop.raise();
  const neuron::Compiler stopped = neuron::Compiler::open({.program = "no-such-compiler", .stop = &stop}).value();
  for (const CompiledStep& step : compile_steps(stopped, steps_of({}), cache_, 2, [](const CompiledStep&) {})) {
    ASSERT_FALSE(step.artifact.has_value());
    EXPECT_EQ(step.artifact.error().kind, ErrorKind::kCancelled);
  }
  EXPECT_TRUE(cache_.asked().empty());
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
  EXPECT_EQ(compile.model.tp, 8);
  EXPECT_EQ(compile.neuron.target, "trn2");
  EXPECT_EQ(compile.neuron.decode_flags, "-O3 --lnc=1");
  EXPECT_TRUE(compile.cache.retry_failed);
  EXPECT_EQ(compile.jobs, 3);
  EXPECT_EQ(compile.drafts, 5);
  EXPECT_TRUE(compile.logits);
  const auto exported = std::get<ExportCommand>(parsed({"export", "--model", "m", "--to", "folder"}));
  EXPECT_EQ(exported.to, "folder");
  EXPECT_EQ(exported.compile.model.model, "m");
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
