// The shard over a fake backend: what it writes, refuses and passes on. Whole models are tested in tests/model.
#include "shards/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "runtime/graph/passes.h"

namespace lockstep::shards {
namespace {

using ::testing::HasSubstr;

checkpoint::ModelSpec tiny_spec() {
  checkpoint::ModelSpec spec;
  spec.model_type = "llama";
  spec.hidden_size = 16;
  spec.embedding_size = 16;
  spec.attention_scale = 0.35;
  spec.rope.rotated = 8;
  spec.layers = 2;
  spec.query_heads = 4;
  spec.key_value_heads = 2;
  spec.head_dim = 8;
  spec.intermediate_size = 24;
  spec.vocabulary = 40;
  spec.max_positions = 64;
  return spec;
}

const ShardOptions kOptions{.slots = 2, .chunk = 4, .capacity = 16};

/// Dense states in a map; a run answers with fixed tokens and records what it was given.
class FakeStore final : public device::Store {
 public:
  explicit FakeStore(std::span<const device::StepGraph> steps) {
    for (const device::StepGraph& step : steps) {
      for (const graph::ValueId id : step.own.values_of(graph::ValueKind::kState)) {
        const graph::Value& state = step.own.value(id);
        if (find_state(state.name)) continue;
        names_.push_back(state.name);
        contents_.emplace_back(static_cast<size_t>(state.type.bytes()));
      }
    }
  }
  Result<void> set_weight(std::string_view name, std::span<const std::byte> bytes) override {
    weights[std::string(name)] = {bytes.begin(), bytes.end()};
    return ok();
  }
  std::optional<device::StateId> find_state(std::string_view name) const override {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return device::StateId(static_cast<int32_t>(i));
    }
    return std::nullopt;
  }
  Result<void> write_state(device::StateId state, int64_t offset, std::span<const std::byte> bytes) override {
    std::memcpy(contents_.at(static_cast<size_t>(state.value)).data() + offset, bytes.data(), bytes.size());
    return ok();
  }
  Result<void> read_state(device::StateId state, int64_t offset, std::span<std::byte> bytes) const override {
    std::memcpy(bytes.data(), contents_.at(static_cast<size_t>(state.value)).data() + offset, bytes.size());
    return ok();
  }
  Result<void> copy_slot(int64_t src, int64_t dst, int64_t tokens) override {
    copies.push_back({src, dst, tokens});
    return ok();
  }
  Result<std::vector<std::byte>> read_cache(device::StateId) const override { return std::vector<std::byte>(); }
  const void* state_address(device::StateId state) const override {
    return contents_.at(static_cast<size_t>(state.value)).data();
  }
  device::MemoryReport memory() const override { return {}; }

  int32_t value(const char* name, size_t index) const {
    int32_t found = 0;
    std::memcpy(&found, contents_.at(static_cast<size_t>(find_state(name).value().value)).data() + 4 * index, 4);
    return found;
  }

  void set(const char* name, size_t index, int32_t value) {
    std::memcpy(contents_.at(static_cast<size_t>(find_state(name).value().value)).data() + 4 * index, &value, 4);
  }

  std::map<std::string, std::vector<std::byte>> weights;
  std::vector<std::vector<int64_t>> copies;  // src, dst, tokens

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::byte>> contents_;
};

class FakeExecutable final : public device::Executable {
 public:
  explicit FakeExecutable(const graph::Graph& graph) : graph_(graph) {}
  const graph::Graph& graph() const override { return graph_; }
  Result<void> run(std::span<const device::HostTensor> inputs) override {
    seen.clear();
    for (const device::HostTensor& input : inputs) {
      const auto* first = reinterpret_cast<const int32_t*>(input.bytes.data());
      seen.emplace_back(first, first + input.type.shape.elements());
    }
    return ok();
  }
  std::span<const std::byte> output(std::string_view name) const override {
    return name == "tokens" ? std::as_bytes(std::span(tokens)) : std::span<const std::byte>();
  }

  std::vector<std::vector<int32_t>> seen;
  int32_t tokens[2] = {11, -1};

 private:
  graph::Graph graph_;
};

class FakeBackend final : public device::Backend {
 public:
  std::string_view name() const override { return "fake"; }
  device::Capabilities capabilities() const override { return {}; }
  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override {
    auto made = std::make_unique<FakeStore>(steps);
    store = made.get();
    return std::unique_ptr<device::Store>(std::move(made));
  }
  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store&,
                                                      const device::CompileOptions&) override {
    auto made = std::make_unique<FakeExecutable>(step.own);
    executables[step.own.name] = made.get();
    return std::unique_ptr<device::Executable>(std::move(made));
  }

  FakeStore* store = nullptr;
  std::map<std::string, FakeExecutable*> executables;
};

/// A shard of rank `rank` of `ranks` and the fakes below it.
struct Fixture {
  explicit Fixture(int ranks = 1, int rank = 0, const ShardOptions& options = kOptions) {
    const auto spec = tiny_spec();
    const auto partition = partition::make_partition(spec, ranks).value();
    shard = Shard::create(build_graphs(spec, partition, rank, options, graph::default_passes()).value(), options,
                          backend, nullptr, RandomWeights())
                .value();
  }
  FakeBackend backend;
  std::unique_ptr<Shard> shard;
};

PrefillRows rows(std::vector<int32_t> ids, int32_t slot, std::vector<int32_t> logit_rows) {
  PrefillRows made;
  for (size_t i = 0; i < ids.size(); ++i) {
    made.slot.push_back(slot);
    made.position.push_back(static_cast<int32_t>(i));
  }
  made.ids = std::move(ids);
  made.logit_rows = std::move(logit_rows);
  return made;
}

TEST(Shard, PadsAPrefillStepToItsStaticChunk) {
  Fixture f;
  ASSERT_TRUE(f.shard->open_slot(SlotId(1), {.max_new_tokens = 3}).has_value());
  const auto output = f.shard->prefill(rows({5, 6, 7}, 1, {-1, 2}), {.schedule = 4, .step = 9}).value();
  const auto& seen = f.backend.executables["prefill"]->seen;
  EXPECT_EQ(seen[0], (std::vector<int32_t>{5, 6, 7, 0}));
  EXPECT_EQ(seen[1], (std::vector<int32_t>{1, 1, 1, -1}));
  EXPECT_EQ(seen[2], (std::vector<int32_t>{0, 1, 2, 0}));
  EXPECT_EQ(seen[3], (std::vector<int32_t>{-1, 2}));
  EXPECT_EQ(output.tokens[0], 11);
  EXPECT_EQ(f.backend.store->value("step", 0), 4);
  EXPECT_EQ(f.backend.store->value("step", 1), 9);
}

TEST(Shard, DecodesASlotOnlyOnceItsPromptIsComplete) {
  Fixture f;
  ASSERT_TRUE(f.shard->open_slot(SlotId(0), {.max_new_tokens = 3}).has_value());
  ASSERT_TRUE(f.shard->prefill(rows({5, 6}, 0, {-1, -1}), {}).has_value());
  EXPECT_EQ(f.backend.store->value("active", 0), 0);
  EXPECT_TRUE(f.shard->all_finished());
  ASSERT_TRUE(f.shard->prefill(rows({7}, 0, {0, -1}), {}).has_value());
  EXPECT_EQ(f.backend.store->value("active", 0), 1);
  EXPECT_FALSE(f.shard->all_finished());
}

TEST(Shard, WritesHowASequenceDrawsAndEnds) {
  Fixture f;
  const SlotParameters parameters{.sampling = {.do_sample = true, .top_k = 7, .seed = 0x100000002ull},
                                  .max_new_tokens = 9,
                                  .eos_ids = {3, 4},
                                  .pad_id = 2};
  ASSERT_TRUE(f.shard->open_slot(SlotId(1), parameters).has_value());
  const FakeStore& store = *f.backend.store;
  const auto integer = [&store](int column) {
    return store.value("draw_integers", static_cast<size_t>(sampling::kIntegers + column));
  };
  EXPECT_EQ(integer(sampling::kDoSample), 1);
  EXPECT_EQ(integer(sampling::kTopK), 7);
  EXPECT_EQ(store.value("seed", 2), 2);
  EXPECT_EQ(store.value("seed", 3), 1);
  EXPECT_EQ(integer(sampling::kMaxNewTokens), 9);
  EXPECT_EQ(integer(sampling::kPadId), 2);
  EXPECT_EQ(store.value("eos", sampling::kMaxEosIds), 3);
  EXPECT_EQ(store.value("eos", sampling::kMaxEosIds + 2), -1);
  const int32_t hash = store.value("parameter_hash", 1);
  SlotParameters changed = parameters;
  changed.sampling.top_k = 8;
  ASSERT_TRUE(f.shard->open_slot(SlotId(1), changed).has_value());
  EXPECT_NE(store.value("parameter_hash", 1), hash);
}

TEST(Shard, HandsStopRequestsToTheNextStepAndForgetsThemOnOpening) {
  Fixture f;
  f.shard->request_stop(SlotId(1));
  ASSERT_TRUE(f.shard->decode({}).has_value());
  EXPECT_EQ(f.backend.store->value("stop_request", 1), 1);
  EXPECT_EQ(f.backend.store->value("stop_request", 0), 0);
  ASSERT_TRUE(f.shard->open_slot(SlotId(1), {}).has_value());
  ASSERT_TRUE(f.shard->decode({}).has_value());
  EXPECT_EQ(f.backend.store->value("stop_request", 1), 0);
}

TEST(Shard, GoesOnWithASequenceAtTheOutputIndexWhereItWas) {
  Fixture f;
  ASSERT_TRUE(f.shard->open_slot(SlotId(1), {.max_new_tokens = 9, .first_output = 4}).has_value());
  EXPECT_EQ(f.backend.store->value("output_index", 1), 4);
  EXPECT_FALSE(f.shard->open_slot(SlotId(1), {.max_new_tokens = 4, .first_output = 4}).has_value());
}

TEST(Shard, CopiesASlotBeforeTheRowsThatGoOnWithIt) {
  Fixture f;
  for (int32_t slot : {0, 1}) ASSERT_TRUE(f.shard->open_slot(SlotId(slot), {.max_new_tokens = 3}).has_value());
  f.backend.store->set("length", 0, 5);
  f.backend.store->set("last_id", 0, 17);
  PrefillRows next = rows({7}, 1, {-1, 0});
  next.copies = {{SlotId(0), SlotId(1)}};
  ASSERT_TRUE(f.shard->prefill(next, {}).has_value());
  EXPECT_EQ(f.backend.store->copies, (std::vector<std::vector<int64_t>>{{0, 1, 5}}));
  EXPECT_EQ(f.backend.store->value("length", 1), 5);
  EXPECT_EQ(f.backend.store->value("active", 1), 1);  // its prompt ends in this step
  EXPECT_EQ(f.backend.store->value("active", 0), 0);
}

TEST(Shard, AppliesADecisionCopiesFirst) {
  Fixture f;
  for (int32_t slot : {0, 1}) ASSERT_TRUE(f.shard->open_slot(SlotId(slot), {.max_new_tokens = 3}).has_value());
  f.backend.store->set("active", 0, 1);
  f.backend.store->set("length", 0, 6);
  f.backend.store->set("output_index", 0, 2);
  Decision decision(2);
  decision.sources = {0, 0};
  decision.tokens = {21, 22};
  ASSERT_TRUE(f.shard->decide(decision).has_value());
  EXPECT_EQ(f.backend.store->copies, (std::vector<std::vector<int64_t>>{{0, 1, 6}}));
  for (size_t slot : {0u, 1u}) {
    EXPECT_EQ(f.backend.store->value("active", slot), 1);
    EXPECT_EQ(f.backend.store->value("length", slot), 6);
    EXPECT_EQ(f.backend.store->value("output_index", slot), 2);
    EXPECT_EQ(f.backend.store->value("last_id", slot), 21 + static_cast<int32_t>(slot));
  }
  decision = Decision(2);
  decision.finished = {0, 1};
  ASSERT_TRUE(f.shard->decide(decision).has_value());
  EXPECT_EQ(f.backend.store->value("finished", 0), 0);
  EXPECT_EQ(f.backend.store->value("finished", 1), 1);
  EXPECT_EQ(f.backend.store->value("last_id", 1), 22);
}

TEST(Shard, RefusesADecisionThatCopiesACopyOrNamesNoToken) {
  Fixture f;
  Decision swap(2);
  swap.sources = {1, 0};
  EXPECT_FALSE(f.shard->decide(swap).has_value());
  Decision unknown(2);
  unknown.tokens = {40, -1};
  EXPECT_FALSE(f.shard->decide(unknown).has_value());
  Decision outside(2);
  outside.sources = {0, 2};
  EXPECT_FALSE(f.shard->decide(outside).has_value());
}

TEST(Shard, ReplaysTheSmallestBucketThatFits) {
  Fixture f(1, 0, {.slots = 2, .chunk = 8, .capacity = 16, .context_buckets = {2, 4, 8}, .token_buckets = {4, 8, 16}});
  ASSERT_TRUE(f.shard->open_slot(SlotId(0), {.max_new_tokens = 3}).has_value());
  ASSERT_TRUE(f.shard->prefill(rows({5, 6, 7}, 0, {2, -1}), {}).has_value());
  EXPECT_EQ(f.shard->replays(), (std::vector<int64_t>{0, 1, 0, 0, 0, 0}));
  const auto decode_at = [&](int32_t length) {
    f.backend.store->set("length", 0, length);
    ASSERT_TRUE(f.shard->decode({}).has_value());
  };
  decode_at(3);  // the new position is 3: the fourth token
  EXPECT_EQ(f.shard->replays(), (std::vector<int64_t>{0, 1, 0, 1, 0, 0}));
  decode_at(4);
  decode_at(8);
  decode_at(15);
  EXPECT_EQ(f.shard->replays(), (std::vector<int64_t>{0, 1, 0, 1, 1, 2}));
  std::vector<std::string> names;
  for (const graph::Graph* graph : f.shard->graphs().all()) names.push_back(graph->name);
  EXPECT_THAT(names,
              ::testing::ElementsAre("prefill_2", "prefill_4", "prefill_8", "decode_4", "decode_8", "decode_16"));
}

TEST(Shard, ReplaysTheSmallestBatchThatHoldsTheRunningSlots) {
  Fixture f(1, 0, {.slots = 4, .chunk = 4, .capacity = 16, .batch_sizes = {1, 2, 4}, .token_buckets = {8, 16}});
  std::vector<std::string> names;
  for (const graph::Graph& graph : f.shard->graphs().decode) names.push_back(graph.name);
  EXPECT_THAT(names, ::testing::ElementsAre("decode_b1_8", "decode_b1_16", "decode_b2_8", "decode_b2_16", "decode_b4_8",
                                            "decode_b4_16"));
  const auto decoded_by = [&]() -> std::string {
    const std::vector<int64_t> before = f.shard->replays();
    EXPECT_TRUE(f.shard->decode({}).has_value());
    for (size_t i = 0; i < before.size(); ++i) {
      if (f.shard->replays()[i] != before[i]) return f.shard->graphs().all()[i]->name;
    }
    return "";
  };
  EXPECT_EQ(decoded_by(), "decode_b1_8");  // nothing runs
  f.backend.store->set("active", 0, 1);
  EXPECT_EQ(decoded_by(), "decode_b1_8");
  f.backend.store->set("active", 1, 1);
  f.backend.store->set("length", 1, 8);
  EXPECT_EQ(decoded_by(), "decode_b2_16");
  f.backend.store->set("active", 2, 1);
  EXPECT_EQ(decoded_by(), "decode_b4_16");
  f.backend.store->set("finished", 2, 1);
  f.backend.store->set("finished", 1, 1);
  EXPECT_EQ(decoded_by(), "decode_b1_8");
}

TEST(Shard, LaysOutDraftsBehindTheLastTokenOfRunningSlots) {
  Fixture f(1, 0, {.slots = 2, .chunk = 4, .capacity = 16, .drafts = 3});
  f.backend.store->set("active", 1, 1);
  f.backend.store->set("length", 1, 14);
  f.backend.store->set("last_id", 1, 9);
  ASSERT_TRUE(f.shard->verify(std::vector<int32_t>{1, 2, 3, 4, 5, 6}, {}).has_value());
  const auto& seen = f.backend.executables["verify"]->seen;
  EXPECT_EQ(seen[0], (std::vector<int32_t>{0, 0, 0, 0, 9, 4, 0, 0}));  // position 16 would be beyond the capacity
  EXPECT_EQ(seen[1], (std::vector<int32_t>{-1, -1, -1, -1, 1, 1, -1, -1}));
  EXPECT_EQ(seen[2], (std::vector<int32_t>{0, 0, 0, 0, 14, 15, 0, 0}));
  EXPECT_EQ(seen[3], (std::vector<int32_t>{-1, 4}));
}

TEST(Shard, RefusesRowsAndSlotsThatItCannotHold) {
  Fixture f;
  const auto message = [&](const PrefillRows& bad) {
    const auto result = f.shard->prefill(bad, {});
    EXPECT_FALSE(result.has_value());
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
    return result.error().message;
  };
  EXPECT_THAT(message(rows({1, 2, 3, 4, 5}, 0, {-1, -1})), HasSubstr("found 5 ids"));
  EXPECT_THAT(message(rows({40}, 0, {-1, -1})), HasSubstr("found id 40"));
  EXPECT_THAT(message(rows({1}, 2, {-1, -1})), HasSubstr("slot 2"));
  EXPECT_THAT(message(rows({1}, 0, {-1})), HasSubstr("1 logit rows"));
  PrefillRows beyond = rows({1}, 0, {-1, -1});
  beyond.position = {16};
  EXPECT_THAT(message(beyond), HasSubstr("position 16"));
  EXPECT_FALSE(f.shard->open_slot(SlotId(2), {}).has_value());
  EXPECT_FALSE(f.shard->open_slot(SlotId(-1), {}).has_value());
  EXPECT_FALSE(f.shard->open_slot(SlotId(0), {.max_new_tokens = 0}).has_value());
}

TEST(LoadWeights, GivesEveryRankItsSliceOfTheSameModel) {
  Fixture whole(1, 0), left(2, 0), right(2, 1);
  // The embedding is cut by rows: the halves, joined, are the whole.
  const auto& all = whole.backend.store->weights.at("model.embed_tokens.weight");
  std::vector<std::byte> joined = left.backend.store->weights.at("model.embed_tokens.weight");
  const auto& rest = right.backend.store->weights.at("model.embed_tokens.weight");
  joined.insert(joined.end(), rest.begin(), rest.end());
  EXPECT_EQ(joined, all);
  EXPECT_EQ(left.shard->replicated_tensors(), right.shard->replicated_tensors());
  EXPECT_FALSE(left.shard->replicated_tensors().empty());
}

TEST(CollectiveList, IsTheSameTextOnEveryRank) {
  Fixture left(3, 0), right(3, 2);
  EXPECT_EQ(collective_list(left.shard->graphs()), collective_list(right.shard->graphs()));
  EXPECT_THAT(collective_list(left.shard->graphs()), HasSubstr("decode all_reduce 2x16 blocks 0,2,3,4"));
}

TEST(BuildGraphs, MakesExactlyOneGraphAPhaseWithItsOwnAttentionKernel) {
  Fixture f;
  for (const auto& [graph, kernel] : {std::pair(&f.shard->graphs().prefill.front(), "prefill"),
                                      std::pair(&f.shard->graphs().decode.front(), "decode")}) {
    int attentions = 0;
    for (const graph::Node& node : graph->nodes) {
      if (node.op != graph::Op::kAttention) continue;
      ++attentions;
      EXPECT_EQ(node.text("kernel"), kernel);
    }
    EXPECT_EQ(attentions, 2);
  }
  EXPECT_EQ(f.shard->graphs().prefill.front().rows, 4);
  EXPECT_EQ(f.shard->graphs().decode.front().rows, 2);
}

TEST(ShardOptions, NameTheFieldThatMakesNoSense) {
  EXPECT_THAT(ShardOptions{.slots = 0}.validate().error().message, HasSubstr("slots 0"));
  EXPECT_THAT(ShardOptions{.chunk = 0}.validate().error().message, HasSubstr("chunk 0"));
  EXPECT_THAT(ShardOptions{.capacity = -1}.validate().error().message, HasSubstr("capacity -1"));
  EXPECT_THAT(ShardOptions{.drafts = -1}.validate().error().message, HasSubstr("drafts -1"));
  EXPECT_THAT((ShardOptions{.capacity = 8, .token_buckets = {4, 4, 8}}.validate().error().message), HasSubstr("4,4,8"));
  EXPECT_THAT((ShardOptions{.chunk = 8, .context_buckets = {4}}.validate().error().message), HasSubstr("rise to 8"));
  EXPECT_THAT((ShardOptions{.slots = 4, .batch_sizes = {1, 2}}.validate().error().message),
              HasSubstr("batch sizes 1,2, expected numbers that rise to 4"));
  EXPECT_FALSE(ShardOptions{.dtype = DType::kInt32}.validate().has_value());
}

}  // namespace
}  // namespace lockstep::shards
