// The mode of key/value heads never changes an answer: logits and tokens have the bits of one rank. Real shards on the
// cpu backend with random weights; ranks are threads.
#include <gtest/gtest.h>

#include <bit>
#include <thread>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/graph/passes.h"
#include "shards/shard.h"
#include "tests/shards/small_llama.h"
#include "transport/loopback/loopback.h"

namespace lockstep::shards {
namespace {

using partition::GqaMode;

constexpr int64_t kChunk = 7;
constexpr int64_t kDrafts = 3;

checkpoint::ModelSpec llama(int64_t key_value_heads) {
  return spec_of({.hidden = 32,
                  .query_heads = 8,
                  .key_value_heads = key_value_heads,
                  .intermediate = 48,
                  .vocabulary = 40,
                  .positions = 256,
                  .head_dim = 8});
}

struct Variant {
  std::string name;
  void (*change)(checkpoint::ModelSpec&);
};

std::vector<Variant> variants() {
  return {{"biases and norms of heads",
           [](auto& spec) { spec.attention_bias = spec.attention_output_bias = spec.query_key_norm = true; }},
          {"rings behind pinned sinks",
           [](auto& spec) {
             spec.windows = {5, 0};
             spec.pinned_sinks = 2;
           }},
          {"slopes of heads", [](auto& spec) { spec.positions = checkpoint::Positions::kAlibi; }},
          {"sinks of heads and soft caps",
           [](auto& spec) {
             spec.attention_sinks = true;
             spec.attention_soft_cap = 3.0;
           }},
          {"weights in eight bits",
           [](auto& spec) { spec.formats = checkpoint::served_formats(*checkpoint::served_format("int8:32")); }}};
}

struct Cut {
  int ranks = 1;
  GqaMode gqa = GqaMode::kAuto;
  int64_t slots = 8;
  DType dtype = DType::kFloat32;
};

/// The mode that a partition of llama() has: heads where every rank has its own, unless the batch is asked for.
GqaMode mode_of(const Cut& cut, int64_t key_value_heads) {
  return key_value_heads % cut.ranks == 0 && cut.gqa != GqaMode::kBatch ? GqaMode::kHeads : cut.gqa;
}

/// Everything that a script of steps gave, bit for bit, and how often ranks shared a decision.
struct Answer {
  std::vector<uint32_t> logits;
  std::vector<int32_t> tokens;
};

/// Drives one rank: ragged prompts of all slots side by side in chunks, decode steps, slots that become copies of
/// others wherever those lie, a prompt that continues from a copy, and verified drafts.
class Script {
 public:
  explicit Script(Shard& shard) : shard_(shard), slots_(static_cast<int32_t>(shard.slots())) {}

  Result<Answer> run() {
    for (int32_t slot = 0; slot < slots_; ++slot) {
      LOCKSTEP_TRY_VOID(shard_.open_slot(SlotId(slot), {.max_new_tokens = 100}));
    }
    LOCKSTEP_TRY_VOID(prefill_all());
    for (int i = 0; i < 3; ++i) LOCKSTEP_TRY_VOID(keep(shard_.decode({1, i})));
    LOCKSTEP_TRY_VOID(copy_backwards());
    for (int i = 0; i < 3; ++i) LOCKSTEP_TRY_VOID(keep(shard_.decode({2, i})));
    LOCKSTEP_TRY_VOID(go_on_from_a_copy());
    LOCKSTEP_TRY_VOID(keep(shard_.decode({3, 1})));
    const std::vector<int32_t> drafts(static_cast<size_t>(slots_ * kDrafts), 5);
    for (int i = 0; i < 2; ++i) LOCKSTEP_TRY_VOID(keep(shard_.verify(drafts, {4, i})));
    LOCKSTEP_TRY_VOID(shard_.confirm({4, 2}));
    return std::move(answer_);
  }

 private:
  static int32_t length_of(int32_t slot) { return 3 + slot * 5 % 11; }

  Result<void> prefill_all() {
    PrefillRows rows;
    const auto flush = [&]() -> Result<void> {
      LOCKSTEP_TRY_VOID(keep(shard_.prefill(rows, {0, step_++})));
      rows = {};
      rows.logit_rows.assign(static_cast<size_t>(slots_), -1);
      return ok();
    };
    rows.logit_rows.assign(static_cast<size_t>(slots_), -1);
    for (int32_t slot = 0; slot < slots_; ++slot) {
      for (int32_t position = 0; position < length_of(slot); ++position) {
        if (position + 1 == length_of(slot)) {
          rows.logit_rows[static_cast<size_t>(slot)] = static_cast<int32_t>(rows.ids.size());
        }
        add(rows, slot, position);
        if (std::ssize(rows.ids) == kChunk) LOCKSTEP_TRY_VOID(flush());
      }
    }
    return rows.ids.empty() ? ok() : flush();
  }

  static void add(PrefillRows& rows, int32_t slot, int32_t position) {
    rows.ids.push_back(1 + (slot * 17 + position * position * 3) % 38);
    rows.slot.push_back(slot);
    rows.position.push_back(position);
  }

  /// The upper half of the slots becomes the lower one, the last first.
  Result<void> copy_backwards() {
    Decision decision(slots_);
    for (int32_t slot = slots_ / 2; slot < slots_; ++slot) {
      decision.sources[static_cast<size_t>(slot)] = slots_ - 1 - slot;
      decision.tokens[static_cast<size_t>(slot)] = 1 + slot;
    }
    return shard_.decide(decision);
  }

  /// The last slot is opened again, as a copy of the first, and takes two more tokens.
  Result<void> go_on_from_a_copy() {
    const SlotId last(slots_ - 1);
    LOCKSTEP_TRY_VOID(shard_.open_slot(last, {.max_new_tokens = 100}));
    LOCKSTEP_TRY(const SlotProgress first, shard_.progress(SlotId(0)));
    PrefillRows rows;
    rows.copies = {{SlotId(0), last}};
    rows.logit_rows.assign(static_cast<size_t>(slots_), -1);
    rows.logit_rows.back() = 1;
    add(rows, last.value, first.length);
    add(rows, last.value, first.length + 1);
    return keep(shard_.prefill(rows, {3, 0}));
  }

  Result<void> keep(const Result<StepOutput>& output) {
    if (!output.has_value()) return output.error();
    const StepOutput& made = output.value();
    answer_.tokens.insert(answer_.tokens.end(), made.tokens.begin(), made.tokens.end());
    const size_t vocabulary = made.logits.size() / made.tokens.size();
    for (size_t row = 0; row < made.tokens.size(); ++row) {
      if (made.tokens[row] < 0) continue;  // an unrequested row
      for (const float logit : made.logits.subspan(row * vocabulary, vocabulary)) {
        answer_.logits.push_back(std::bit_cast<uint32_t>(logit));
      }
    }
    return ok();
  }

  Shard& shard_;
  const int32_t slots_;
  int32_t step_ = 0;
  Answer answer_;
};

Result<Answer> run_rank(const checkpoint::ModelSpec& spec, const Cut& cut, int rank,
                        device::Communicator* communicator) {
  const ShardOptions options{.slots = cut.slots,
                             .chunk = kChunk,
                             .capacity = 40,
                             .drafts = kDrafts,
                             .dtype = cut.dtype,
                             .logits = families::StepShape::Logits::kOutput};
  LOCKSTEP_TRY(const partition::Partition partition,
               partition::make_partition(spec, cut.ranks, partition::ExpertSplit::kColumns,
                                         partition::Numerics::kInvariant, cut.gqa));
  EXPECT_TRUE(cut.gqa == GqaMode::kAuto || partition.gqa == mode_of(cut, spec.key_value_heads));
  LOCKSTEP_TRY(ShardGraphs graphs, build_graphs(spec, partition, rank, options, graph::default_passes()));
  LOCKSTEP_TRY(const auto backend, cpu::make_backend({.threads = 1}));
  LOCKSTEP_TRY(const auto shard, Shard::create(std::move(graphs), options, *backend, communicator, RandomWeights()));
  return Script(*shard).run();
}

/// The answer, which is the same on every rank.
Answer answer_of(const checkpoint::ModelSpec& spec, const Cut& cut) {
  if (cut.ranks == 1) return run_rank(spec, cut, 0, nullptr).value();
  const SteadyClock clock;
  AbortFlag abort;
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(60)};
  const auto group = transport::loopback::make_group(cut.ranks);
  std::vector<Answer> answers(static_cast<size_t>(cut.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < cut.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = transport::loopback::make_communicator(group, rank, wait);
      auto answer = run_rank(spec, cut, rank, communicator.get());
      if (answer.has_value()) {
        answers[static_cast<size_t>(rank)] = std::move(answer).value();
      } else {
        ADD_FAILURE() << "rank " << rank << ": " << answer.error().message;
        abort.raise(answer.error());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Answer& answer : answers) EXPECT_EQ(answer.tokens, answers.front().tokens);
  return answers.front();
}

void expect_same(const Answer& found, const Answer& expected) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_TRUE(found.logits == expected.logits);
  EXPECT_FALSE(expected.logits.empty());
}

std::string to_string(const Cut& cut) {
  return fmt::format("{}, {} ranks, {} slots, {}", partition::name_of(cut.gqa), cut.ranks, cut.slots,
                     lockstep::to_string(cut.dtype));
}

class GqaModes : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(KeyValueHeads, GqaModes, ::testing::Values(1, 2, 4));

TEST_P(GqaModes, GiveTheBitsOfOneRank) {
  const checkpoint::ModelSpec spec = llama(GetParam());
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int ranks : {2, 3, 4, 8}) {
      const int64_t slots = ranks == 3 ? 6 : 8;
      const Answer expected = answer_of(spec, {.slots = slots, .dtype = dtype});
      for (const GqaMode gqa : {GqaMode::kReplicated, GqaMode::kAllGather, GqaMode::kBatch}) {
        const Cut cut{.ranks = ranks, .gqa = gqa, .slots = slots, .dtype = dtype};
        SCOPED_TRACE(to_string(cut));
        expect_same(answer_of(spec, cut), expected);
      }
    }
  }
}

TEST(GqaModes, GiveTheBitsOfOneRankWhateverIsParticularAboutAttention) {
  for (const Variant& variant : variants()) {
    checkpoint::ModelSpec spec = llama(2);
    variant.change(spec);
    const Answer expected = answer_of(spec, {.slots = 6});
    for (const GqaMode gqa : {GqaMode::kAllGather, GqaMode::kBatch}) {
      const Cut cut{.ranks = 3, .gqa = gqa, .slots = 6};
      SCOPED_TRACE(variant.name + ", " + to_string(cut));
      expect_same(answer_of(spec, cut), expected);
    }
  }
}

TEST(GqaModes, OverBatchRefuseSlotsThatDoNotDivide) {
  const checkpoint::ModelSpec spec = llama(2);
  const auto partition = partition::make_partition(spec, 3, partition::ExpertSplit::kColumns,
                                                   partition::Numerics::kInvariant, GqaMode::kBatch)
                             .value();
  const auto graphs = build_graphs(spec, partition, 0, {.slots = 4}, {});
  ASSERT_FALSE(graphs.has_value());
  EXPECT_EQ(graphs.error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::shards
