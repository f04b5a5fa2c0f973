// A step gives the same bits for any order of its nodes. The fusion of the cpu backend depends only on the nodes'
// operands. Every golden's model with random weights, two layers of it; ranks are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <sstream>
#include <thread>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/graph/passes.h"
#include "shards/shard.h"
#include "tests/model/golden.h"
#include "tests/model/node_order.h"
#include "transport/loopback/loopback.h"

namespace lockstep::model {
namespace {

constexpr int32_t kSlots = 3;
constexpr int32_t kPrompt = 13;  // tokens of each slot: beyond the goldens' windows of 8
constexpr int64_t kDrafts = 2;
constexpr uint64_t kAsBuilt = 0;  // a seed that keeps the order

shards::ShardOptions options_of(int64_t slots) {
  return {.slots = slots,
          .chunk = 16,
          .capacity = 40,
          .drafts = kDrafts,
          .dtype = DType::kBFloat16,
          .logits = families::StepShape::Logits::kOutput};
}

checkpoint::ModelSpec spec_of(const std::string& golden) {
  const Golden model = read_golden(LOCKSTEP_GOLDENS_DIR, golden);
  checkpoint::ModelSpec spec = checkpoint::parse_spec(model.config, golden).value();
  spec.layers = 2;
  if (spec.layers_sharing_cache > 0) {
    spec.layers = 4;  // the last one has one of its kind before it
    spec.layers_sharing_cache = 1;
  }
  return spec;
}

shards::ShardGraphs graphs_of(const checkpoint::ModelSpec& spec, int ranks, int rank, int64_t slots) {
  const partition::Partition partition = partition::make_partition(spec, ranks).value();
  return shards::build_graphs(spec, partition, rank, options_of(slots), graph::default_passes()).value();
}

/// The cpu backend, which is given the nodes of every graph in another order.
class ReorderingBackend final : public device::Backend {
 public:
  ReorderingBackend(int threads, uint64_t seed)
      : inner_(cpu::make_backend({.threads = threads}).value()), seed_(seed) {}

  std::string_view name() const override { return inner_->name(); }
  device::Capabilities capabilities() const override { return inner_->capabilities(); }
  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override {
    return inner_->make_store(steps);
  }
  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store& store,
                                                      const device::CompileOptions& options) override {
    return inner_->compile(seed_ == kAsBuilt ? step.own : reordered(step.own, seed_), store, options);
  }

 private:
  std::unique_ptr<device::Backend> inner_;
  uint64_t seed_;
};

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> logits;  // bits

  void take(const shards::StepOutput& output) {
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    for (const float logit : output.logits) logits.push_back(std::bit_cast<uint32_t>(logit));
  }
};

/// Prefills all slots side by side in chunks, decodes, verifies drafts.
Result<Answer> run(shards::Shard& shard) {
  Answer answer;
  for (int32_t slot = 0; slot < kSlots; ++slot) {
    LOCKSTEP_TRY_VOID(shard.open_slot(SlotId(slot), {.max_new_tokens = 20}));
  }
  shards::PrefillRows rows;
  rows.logit_rows.assign(kSlots, -1);
  for (int32_t token = 0; token < kSlots * kPrompt; ++token) {
    const int32_t slot = token / kPrompt, position = token % kPrompt;
    if (position == kPrompt - 1) rows.logit_rows[slot] = static_cast<int32_t>(rows.ids.size());
    rows.ids.push_back(1 + token * token % 30);
    rows.slot.push_back(slot);
    rows.position.push_back(position);
    if (std::ssize(rows.ids) < shard.chunk() && token + 1 < kSlots * kPrompt) continue;
    LOCKSTEP_TRY(const shards::StepOutput output, shard.prefill(rows, {0, token}));
    answer.take(output);
    rows = {};
    rows.logit_rows.assign(kSlots, -1);
  }
  for (int32_t step = 0; step < 4; ++step) {
    LOCKSTEP_TRY(const shards::StepOutput output, shard.decode({1, step}));
    answer.take(output);
  }
  LOCKSTEP_TRY(const shards::StepOutput output, shard.verify(std::vector<int32_t>(kSlots * kDrafts, 5), {2, 0}));
  answer.take(output);
  LOCKSTEP_TRY_VOID(shard.confirm({2, 1}));
  return answer;
}

Result<Answer> run_rank(const checkpoint::ModelSpec& spec, int ranks, int rank, uint64_t seed,
                        device::Communicator* communicator) {
  ReorderingBackend backend(/*threads=*/ranks == 1 ? 2 : 1, seed);  // workers spin
  LOCKSTEP_TRY(const auto shard, shards::Shard::create(graphs_of(spec, ranks, rank, kSlots), options_of(kSlots),
                                                       backend, communicator, shards::RandomWeights()));
  return run(*shard);
}

Answer answer_of(const checkpoint::ModelSpec& spec, int ranks, uint64_t seed) {
  if (ranks == 1) return run_rank(spec, 1, 0, seed, nullptr).value();
  const SteadyClock clock;
  AbortFlag abort;
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(60)};
  const auto group = transport::loopback::make_group(ranks, 1 << 20, transport::Crowding::kCrowded);
  std::vector<Answer> answers(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = transport::loopback::make_communicator(group, rank, wait);
      auto answer = run_rank(spec, ranks, rank, seed, communicator.get());
      if (answer.has_value()) {
        answers[static_cast<size_t>(rank)] = std::move(answer).value();
      } else {
        ADD_FAILURE() << "rank " << rank << ": " << answer.error().message;
        abort.raise(answer.error());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return answers.front();
}

/// The cpu backend's fusions, one line per node.
std::vector<std::string> fusings_of(const graph::Graph& graph) {
  std::istringstream text(cpu::explain(graph));
  std::vector<std::string> lines;
  std::string line;
  std::getline(text, line);  // the headline
  while (std::getline(text, line)) lines.push_back(line);
  return lines;
}

class NodeOrder : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  const checkpoint::ModelSpec spec_ = spec_of(std::get<0>(GetParam()));
  const int ranks_ = std::get<1>(GetParam());
  /// Of the experts and of a shared one whose leaves are others.
  const bool has_two_sums_ = spec_.shared_expert_size > 0 && spec_.shared_expert_size % spec_.intermediate_size != 0;
};

INSTANTIATE_TEST_SUITE_P(Goldens, NodeOrder,
                         ::testing::Combine(::testing::ValuesIn(golden_names(LOCKSTEP_GOLDENS_DIR)),
                                            ::testing::Values(1, 2)),
                         [](const auto& tested) {
                           return fmt::format("{}_tp{}", std::get<0>(tested.param), std::get<1>(tested.param));
                         });

TEST_P(NodeOrder, ChangesNoBit) {
  const Answer expected = answer_of(spec_, ranks_, kAsBuilt);
  EXPECT_FALSE(expected.logits.empty());
  for (const size_t turn : cuts_in_turn(LOCKSTEP_GOLDENS_DIR, std::get<0>(GetParam()), 3, 1)) {
    const uint64_t seed = 1 + turn;
    SCOPED_TRACE(seed);
    const Answer found = answer_of(spec_, ranks_, seed);
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_TRUE(found.logits == expected.logits);
  }
}

/// More may be: as built, OPT adds rows of a table that are looked up after the product that they are added to.
TEST_P(NodeOrder, UndoesNoFusing) {
  const shards::ShardGraphs graphs = graphs_of(spec_, ranks_, /*rank=*/0, /*slots=*/1);
  for (const graph::Graph* graph : graphs.all()) {
    std::vector<std::string> expected = fusings_of(*graph);
    // Of two sums over ranks that are under way at once, the order of the nodes decides which is made in place.
    if (has_two_sums_)
      std::erase_if(expected, [](const std::string& line) { return line.find("roots in place") != std::string::npos; });
    // What a gate multiplies (a layer's input, heads) may be made after the gate's product.
    if (spec_.layer_input_size > 0 || spec_.attention_gate) {
      std::erase_if(expected, [](const std::string& fusing) {
        return fusing.find("gated_activation → columns of") != std::string::npos;
      });
    }
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(testing::Message() << graph->name << " " << seed);
      EXPECT_THAT(fusings_of(reordered(*graph, seed)), ::testing::IsSupersetOf(expected));
    }
  }
}

}  // namespace
}  // namespace lockstep::model
