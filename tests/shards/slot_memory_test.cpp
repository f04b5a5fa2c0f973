// The physical memory behind the slots of a shard on the CPU backend, which grows as tokens arrive.
#include <gtest/gtest.h>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/graph/passes.h"
#include "shards/shard.h"
#include "tests/shards/small_llama.h"

namespace lockstep::shards {
namespace {

constexpr int64_t kPage = 4096;
const ShardOptions kOptions{.slots = 8, .chunk = 64, .capacity = 131'072, .dtype = DType::kBFloat16};

checkpoint::ModelSpec spec() {
  return spec_of({.hidden = 32,
                  .query_heads = 2,
                  .key_value_heads = 1,
                  .intermediate = 48,
                  .vocabulary = 64,
                  .positions = kOptions.capacity});
}

/// Keys and values of 64 tokens: 2 layers of 16 dimensions, 2 bytes each.
constexpr int64_t kTileBytes = 2 * 2 * 64 * 16 * 2;

struct Slots {
  std::unique_ptr<device::Backend> backend = cpu::make_backend({.threads = 1}).value();
  std::unique_ptr<Shard> shard = Shard::create(build_graphs(spec(), partition::make_partition(spec(), 1).value(), 0,
                                                            kOptions, graph::default_passes())
                                                   .value(),
                                               kOptions, *backend, nullptr, RandomWeights())
                                     .value();
  int64_t before = resident();

  int64_t resident() const { return shard->store().memory().states_resident.value; }

  /// A prompt of `prompt` tokens and `more` after it in slot `slot`, which is closed then.
  void serve(int32_t slot, int64_t prompt, int64_t more) {
    ASSERT_TRUE(shard->open_slot(SlotId(slot), {.max_new_tokens = static_cast<int32_t>(more + 1)}).has_value());
    for (int64_t begin = 0; begin < prompt; begin += kOptions.chunk) {
      PrefillRows rows;
      for (int64_t at = begin; at < std::min(begin + kOptions.chunk, prompt); ++at) {
        rows.ids.push_back(static_cast<int32_t>(at % 60));
        rows.slot.push_back(slot);
        rows.position.push_back(static_cast<int32_t>(at));
      }
      rows.logit_rows.assign(static_cast<size_t>(kOptions.slots), -1);
      if (begin + kOptions.chunk >= prompt) rows.logit_rows[slot] = static_cast<int32_t>(rows.ids.size()) - 1;
      ASSERT_TRUE(shard->prefill(rows, {.schedule = 0, .step = 0}).has_value());
    }
    for (int64_t i = 0; i < more; ++i) ASSERT_TRUE(shard->decode({.schedule = 0, .step = 0}).has_value());
    ASSERT_TRUE(shard->close_slot(SlotId(slot)).has_value());
  }
};

TEST(SlotMemory, IsReservedForEverySlotAndHeldByNone) {
  const Slots slots;
  EXPECT_GE(slots.shard->store().memory().states_reserved.value, 8 * (131'072 / 64) * kTileBytes);
  EXPECT_LE(slots.before, kOptions.slots * kPage);  // the slots' own numbers
}

TEST(SlotMemory, GrowsWithTheTokensOfASlotAndNotOfTheOthers) {
  Slots slots;
  slots.serve(3, 150, 50);
  const int64_t used = (200 + 63) / 64 * kTileBytes;
  EXPECT_GT(slots.resident(), used - kTileBytes);
  EXPECT_LE(slots.resident(), used + kOptions.slots * kPage);  // at most a page for each slot
}

TEST(SlotMemory, OfAFinishedRequestIsUsedAgainByTheNext) {
  Slots slots;
  slots.serve(3, 150, 50);
  const int64_t after_one = slots.resident();
  slots.serve(3, 120, 80);
  slots.serve(3, 200, 0);
  EXPECT_EQ(slots.resident(), after_one);
}

TEST(SlotMemory, IsGivenBackWhenAskedFor) {
  Slots slots;
  slots.serve(3, 150, 50);
  slots.serve(0, 700, 3);
  slots.shard->store().release_caches();
  EXPECT_LE(slots.resident(), kOptions.slots * kPage);
  slots.serve(3, 150, 50);
  EXPECT_GT(slots.resident(), 3 * kTileBytes);
}

}  // namespace
}  // namespace lockstep::shards
