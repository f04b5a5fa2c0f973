// Compilation of all steps of a small model, with a scripted cache.
#include "runtime/backends/neuron/ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "runtime/backends/neuron/neuron.h"
#include "shards/shard_graphs.h"
#include "tests/shards/small_llama.h"
#include "tests/temporary_directory.h"

namespace lockstep::neuron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Has prefill, cannot make decode.
class ScriptedCache final : public device::ArtifactCache {
 public:
  ScriptedCache(std::filesystem::path artifact, std::multiset<std::string>& asked)
      : artifact_(std::move(artifact)), asked_(asked) {}
  Result<device::Artifact> get(const device::ArtifactKey& key, const device::MakeArtifact&) override {
    asked_.insert(key.step);
    if (key.step == "decode") return Error{ErrorKind::kUnsupported, "[test] cannot: too large"};
    return device::Artifact{.path = artifact_, .was_made = false, .origin = "from a test"};
  }

 private:
  std::filesystem::path artifact_;
  std::multiset<std::string>& asked_;
};

class NeuronCompilation : public ::testing::Test {
 protected:
  NeuronCompilation() { std::ofstream(artifact()) << std::string(2048, 'x'); }

  std::filesystem::path artifact() const { return directory_.path() / "artifact"; }

  /// Prefill and decode of a small model.
  std::vector<std::vector<graph::Graph>> graphs_of(int ranks) const {
    const checkpoint::ModelSpec spec = shards::spec_of(
        {.hidden = 48, .query_heads = 3, .key_value_heads = 3, .intermediate = 96, .vocabulary = 60, .positions = 64});
    const auto partition = partition::make_partition(spec, ranks).value();
    return shards::graphs_of_group(spec, partition, {.slots = 1, .chunk = 4, .capacity = 16}).value();
  }

  std::unique_ptr<device::AheadCompilation> compilation(const StopEvent* stop = nullptr) {
    std::vector<LoweredStep> steps;
    for (const auto& ranks : graphs_of(1)) steps.push_back(lower(ranks).value());
    return make_compilation({.steps = std::move(steps),
                             .compiler = Compiler::open({.program = "no-such-compiler", .stop = stop}).value(),
                             .cache = std::make_unique<ScriptedCache>(artifact(), asked_),
                             .build = "test",
                             .warnings = {}});
  }

  /// As `lockstep compile` opens it, for `ranks` ranks.
  Result<std::unique_ptr<device::AheadCompilation>> open(int ranks, device::OptionValues values = {}) {
    const auto graphs = graphs_of(ranks);
    std::vector<device::StepGraph> steps;
    for (const auto& of_all_ranks : graphs) steps.emplace_back(of_all_ranks.front(), of_all_ranks);
    values.insert({{"neuron-cc", "no-such-compiler"}, {"compile-cache", directory_.path().string()}});
    const device::AheadSite site{.build = "test", .environment = [](std::string_view) { return std::nullopt; }};
    return driver().compiler()->open(steps, site, values);
  }

  TemporaryDirectory directory_;
  std::multiset<std::string> asked_;
};

TEST_F(NeuronCompilation, AsksItsCacheForEachStep) {
  const auto all = compilation();
  ASSERT_EQ(all->steps(), 2u);
  const device::CompiledStep prefill = all->compile(0), decode = all->compile(1);
  EXPECT_EQ(prefill.name, "prefill");
  EXPECT_EQ(prefill.status(), "cached");
  EXPECT_EQ(prefill.size, Bytes(2048));
  EXPECT_EQ(prefill.module, Bytes(std::ssize(all->module(0).bytes)));
  EXPECT_EQ(decode.status(), "failed");
  EXPECT_THAT(asked_, ElementsAre("decode", "prefill"));
  EXPECT_EQ(all->module(1).file, "decode.hlo.pb");
}

TEST_F(NeuronCompilation, AsksForNothingOnceItsEndWasAskedFor) {
  StopEvent stop;
  stop.raise();
  const auto stopped = compilation(&stop);
  EXPECT_EQ(stopped->compile(0).artifact.error().kind, ErrorKind::kCancelled);
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(NeuronCompilation, WarnsOfADegreeThatTheDevicesDoNotHave) {
  EXPECT_THAT(open(1).value()->warnings(), IsEmpty());
  EXPECT_THAT(open(3).value()->warnings(), ElementsAre(HasSubstr("found 3 ranks on trn1, expected 1, 2, 8, 16, 32")));
}

TEST_F(NeuronCompilation, IsOfTheTargetThatIsNamed) {
  const auto all = open(1, {{"neuron-target", "inf2"}}).value();
  EXPECT_EQ(all->facts().target, "inf2");
  EXPECT_EQ(all->facts().version, "");  // there is no such program
  EXPECT_EQ(open(1, {{"neuron-cc-flags-decode", "--target=trn2"}}).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::neuron
