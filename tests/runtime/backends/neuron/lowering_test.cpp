// Properties of every lowered module, independent of its results. Its results were compared with the reference backend
// on XLA's CPU client (tools/check_hlo.py); approved.txt holds the fingerprints of the modules that agreed.
#include "runtime/backends/neuron/lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "runtime/backends/neuron/hlo/wire.h"
#include "runtime/backends/neuron/neuron.h"
#include "runtime/core/hash.h"
#include "runtime/graph/builder.h"
#include "shards/shard_graphs.h"
#include "tests/runtime/backends/neuron/oracle_case.h"
#include "tests/shards/small_llama.h"

namespace lockstep::neuron {
namespace {

using ::testing::HasSubstr;

/// Lowered once for all tests.
struct Lowered {
  std::string name;
  std::vector<LoweredStep> steps;
};
const std::vector<Lowered>& lowered_cases() {
  static const std::vector<Lowered> all = [] {
    std::vector<Lowered> lowered;
    for (const OracleCase& c : oracle_cases()) lowered.push_back({c.name, lower_all(c)});
    return lowered;
  }();
  return all;
}

/// Opcodes that AWS's transformers-neuronx uses in its models, and `copy`, which its nkipy puts before outputs: what
/// neuronx-cc is known to take (sources: the backend's README).
const std::set<std::string_view> kKnownOpcodes = {"parameter",
                                                  "constant",
                                                  "broadcast",
                                                  "reshape",
                                                  "transpose",
                                                  "convert",
                                                  "iota",
                                                  "dot",
                                                  "add",
                                                  "subtract",
                                                  "multiply",
                                                  "divide",
                                                  "maximum",
                                                  "minimum",
                                                  "compare",
                                                  "select",
                                                  "and",
                                                  "or",
                                                  "not",
                                                  "exponential",
                                                  "log",
                                                  "tanh",
                                                  "logistic",
                                                  "rsqrt",
                                                  "sqrt",
                                                  "sine",
                                                  "cosine",
                                                  "floor",
                                                  "abs",
                                                  "clamp",
                                                  "reduce",
                                                  "reduce-window",
                                                  "slice",
                                                  "dynamic-slice",
                                                  "dynamic-update-slice",
                                                  "pad",
                                                  "gather",
                                                  "scatter",
                                                  "concatenate",
                                                  "reverse",
                                                  "sort",
                                                  "rng",
                                                  "tuple",
                                                  "get-tuple-element",
                                                  "custom-call",
                                                  "all-reduce",
                                                  "all-gather",
                                                  "reduce-scatter",
                                                  "all-to-all",
                                                  "copy"};

TEST(EveryModule, HasOnlyOpcodesThatTheCompilerTakes) {
  for (const Lowered& c : lowered_cases()) {
    for (const LoweredStep& step : c.steps) {
      for (const hlo::Computation& computation : step.module.computations) {
        for (const hlo::Instruction& instruction : computation.instructions) {
          EXPECT_TRUE(kKnownOpcodes.contains(to_string(instruction.opcode))) << c.name << " " << instruction.name;
        }
      }
    }
  }
}

TEST(EveryModule, IsTheSameAfterItsBytes) {
  for (const Lowered& c : lowered_cases()) {
    for (const LoweredStep& step : c.steps) {
      const std::vector<std::byte> bytes = hlo::to_bytes(step.module);
      const auto read = hlo::from_bytes(bytes);
      ASSERT_TRUE(read.has_value()) << c.name << ": " << read.error().message;
      EXPECT_TRUE(read.value() == step.module) << c.name;
      EXPECT_TRUE(hlo::to_bytes(read.value()) == bytes) << c.name;
    }
  }
}

TEST(EveryModule, AliasesEachStateThatItUpdatesToAParameterOfItsShape) {
  for (const Lowered& c : lowered_cases()) {
    for (const LoweredStep& step : c.steps) {
      const auto parameters = hlo::parameters_of(step.module);
      const hlo::Computation& entry = step.module.entry();
      const hlo::Instruction& root = entry.instructions[static_cast<size_t>(entry.root)];
      ASSERT_EQ(parameters.size(), step.signature.parameters.size()) << c.name;
      ASSERT_EQ(root.operands.size(), step.signature.outputs.size()) << c.name;
      size_t updated = 0;
      for (const Parameter& parameter : step.signature.parameters) {
        const bool is_state = parameter.role == Role::kState;
        EXPECT_TRUE(is_state || !parameter.output) << c.name << " " << parameter.name;
        updated += parameter.output ? 1 : 0;
      }
      EXPECT_EQ(step.module.aliases.size(), updated) << c.name;
      for (const hlo::Alias& alias : step.module.aliases) {
        EXPECT_EQ(root.type.parts[static_cast<size_t>(alias.output)],
                  parameters[static_cast<size_t>(alias.parameter)]->type)
            << c.name;
      }
    }
  }
}

TEST(EveryModule, PutsOutNoBareParameter) {
  for (const Lowered& c : lowered_cases()) {
    for (const LoweredStep& step : c.steps) {
      const hlo::Computation& entry = step.module.entry();
      for (const int output : entry.instructions[static_cast<size_t>(entry.root)].operands) {
        EXPECT_NE(entry.instructions[static_cast<size_t>(output)].opcode, hlo::Opcode::kParameter) << c.name;
      }
    }
  }
}

TEST(EveryModule, HasNamesOfItsOwn) {
  for (const Lowered& c : lowered_cases()) {
    for (const LoweredStep& step : c.steps) {
      std::set<std::string> names;
      for (const hlo::Computation& computation : step.module.computations) {
        for (const hlo::Instruction& instruction : computation.instructions) {
          EXPECT_TRUE(names.insert(instruction.name).second) << c.name << " " << instruction.name;
        }
      }
    }
  }
}

/// The fingerprints in approved.txt, by case.
std::map<std::string, std::vector<std::string>> approved() {
  std::map<std::string, std::vector<std::string>> fingerprints;
  std::ifstream file(LOCKSTEP_NEURON_TESTS_DIR "/approved.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (std::string word; words >> word;) fingerprints[name].push_back(word);
  }
  return fingerprints;
}

TEST(EveryModule, IsTheOneThatAgreedWithTheReferenceBackend) {
  const auto expected = approved();
  EXPECT_EQ(expected.size(), lowered_cases().size());
  for (const Lowered& c : lowered_cases()) {
    std::vector<std::string> found;
    for (const LoweredStep& step : c.steps) {
      found.push_back(fmt::format("{:016x}", Fingerprint().add_bytes(hlo::to_bytes(step.module)).value()));
    }
    ASSERT_TRUE(expected.contains(c.name)) << c.name << ": run tools/check_hlo.py, which says how at its top";
    EXPECT_EQ(found, expected.at(c.name)) << c.name << ": the lowering has changed; run tools/check_hlo.py again";
  }
}

TEST(Lowering, RefusesGraphsThatAreNotOneOfEachRank) {
  const OracleCase c = dense_cases().front();
  const std::vector<graph::Graph> twice{c.graphs[0][0], c.graphs[0][0]};
  const auto lowered = lower(twice);
  ASSERT_FALSE(lowered.has_value());
  EXPECT_EQ(lowered.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(lowered.error().message, HasSubstr("found rank 0 of 1 in place 0 of 2"));
}

TEST(Lowering, RefusesStepsOfSomeSlotsWhereRanksHoldWholeSequences) {
  const auto spec = shards::spec_of(
      {.hidden = 64, .query_heads = 4, .key_value_heads = 2, .intermediate = 64, .vocabulary = 32, .positions = 64});
  const auto partition = partition::make_partition(spec, 2, partition::ExpertSplit::kColumns,
                                                   partition::Numerics::kInvariant, partition::GqaMode::kBatch);
  const shards::ShardOptions options{.slots = 4, .chunk = 8, .capacity = 16, .batch_sizes = {2, 4}};
  std::vector<graph::Graph> of_two_slots, of_all;
  for (int rank = 0; rank < 2; ++rank) {
    const auto graphs = shards::build_graphs(spec, partition.value(), rank, options, {}).value();
    of_two_slots.push_back(graphs.decode.front());
    of_all.push_back(graphs.decode.back());
  }
  ASSERT_EQ(of_two_slots.front().rows, 2);
  const auto lowered = lower(of_two_slots);
  ASSERT_TRUE(lowered.has_error());
  EXPECT_EQ(lowered.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(lowered.error().message, HasSubstr("give one --batch-size, or another --gqa than batch"));
  EXPECT_TRUE(lower(of_all).has_value());
}

TEST(Lowering, RefusesColumnsThatDifferBetweenRanksOfWhatIsPadded) {
  // As in a product of joined weights, where a rank's padding would stand between the parts.
  std::vector<graph::Graph> graphs;
  for (int rank = 0; rank < 2; ++rank) {
    graph::GraphBuilder b({.name = "step", .ranks = 2, .rank = rank, .rows = 2, .slots = 1});
    const auto weight = b.weight("w", {DType::kFloat32, {8 + rank, 3}}, {{"w", {{0, 8 + rank}, {0, 3}}}});
    const auto x = b.linear(b.input("x", {DType::kFloat32, {2, 3}}), weight);
    b.output("y", b.columns(x, {rank, rank + 4}));
    graphs.push_back(std::move(b).finish());
  }
  const auto lowered = lower(graphs);
  ASSERT_FALSE(lowered.has_value());
  EXPECT_EQ(lowered.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(lowered.error().message, HasSubstr("node 1 (columns) of step"));
}

/// Uneven shares of the vocabulary over two ranks: padding, differences, exchanges.
std::vector<graph::Graph> vocabulary_step() {
  std::vector<graph::Graph> graphs;
  for (int rank = 0; rank < 2; ++rank) {
    const Range rows = rank == 0 ? Range{0, 6} : Range{6, 10};
    graph::GraphBuilder b({.name = "decode", .ranks = 2, .rank = rank, .rows = 3, .slots = 3});
    const graph::ValueId table = b.weight("table", {DType::kBFloat16, {rows.size(), 4}}, {{"table", {rows, {0, 4}}}});
    const graph::ValueId partial = b.embedding(b.state("last_id", {DType::kInt32, {3}}), table, rows.begin);
    const graph::ValueId x = b.all_reduce(partial, BlockSplit{{0, 1, 2}}, DType::kBFloat16);
    b.output("logits", b.all_gather(b.linear(x, table, std::nullopt, DType::kFloat32), {6, 4}));
    graphs.push_back(std::move(b).finish());
  }
  return graphs;
}

/// A cache that is read and written.
std::vector<graph::Graph> cache_step() {
  graph::GraphBuilder b({.name = "decode", .ranks = 1, .rank = 0, .rows = 2, .slots = 2});
  const auto ints = [&](const char* name) { return b.state(name, {DType::kInt32, {2}}); };
  const graph::ValueId active = ints("active"), finished = ints("finished"), length = ints("length");
  const graph::ValueId slot = b.running_slots(active, finished);
  const graph::ValueId x = b.input("x", {DType::kFloat32, {2, 8}});
  const graph::ValueId cache = b.state("kv.0.k", {DType::kFloat32, {2, 1, 16, 4}});
  b.kv_append(b.columns(x, {0, 4}), cache, slot, length);
  b.output("y", b.attention(x, cache, cache, slot, length, {.head_map = {0, 0}, .scale = 0.5, .kernel = "decode"}));
  b.advance(length, slot);
  std::vector<graph::Graph> graphs;
  graphs.push_back(std::move(b).finish());
  return graphs;
}

/// Compares with goldens/<name>.txt; LOCKSTEP_WRITE_GOLDENS=1 in the environment writes it.
void expect_text(const std::string& name, const std::vector<graph::Graph>& graphs) {
  const std::string path = std::string(LOCKSTEP_NEURON_TESTS_DIR) + "/goldens/" + name + ".txt";
  const std::string text = explain(graphs).value();
  if (std::getenv("LOCKSTEP_WRITE_GOLDENS") != nullptr) std::ofstream(path) << text;
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str());
}

TEST(ModuleText, ShowsPaddingRankParametersAndCollectives) { expect_text("vocabulary", vocabulary_step()); }
TEST(ModuleText, ShowsTheCacheAsAnAliasedParameter) { expect_text("cache", cache_step()); }

}  // namespace
}  // namespace lockstep::neuron
