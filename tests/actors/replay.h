// Requests for planners, and a replay of their schedules that knows the rules.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "actors/planner.h"

namespace lockstep::actors {

/// Its ids are 1000 · id, 1000 · id + 1, …
inline Admission request(int64_t id, int length, int32_t new_tokens) {
  Request made{.id = RequestId(id), .ids = {}, .parameters = {}};
  for (int i = 0; i < length; ++i) made.ids.push_back(static_cast<int32_t>(1000 * id + i));
  made.parameters.max_new_tokens = new_tokens;
  return admit(made, {.capacity = 1000}).value();
}

inline PlannerLimits limits(int64_t slots, int64_t chunk) { return {.slots = slots, .chunk = chunk, .capacity = 100}; }

/// Applies schedules as an engine would, and fails on any that breaks the rules.
class Replay {
 public:
  explicit Replay(PlannerLimits limits) : limits_(limits), slots_(static_cast<size_t>(limits.slots)) {}

  void run(const Schedule& schedule) {
    EXPECT_EQ(schedule.number, next_number_++);
    for (const SlotId slot : schedule.closed) {
      EXPECT_TRUE(slots_[slot.value].is_open) << to_string(schedule);
      slots_[slot.value] = {};
    }
    for (const OpenedSlot& opened : schedule.opened) {
      EXPECT_FALSE(slots_[opened.slot.value].is_open) << to_string(schedule);
      slots_[opened.slot.value].is_open = true;
      slots_[opened.slot.value].budget = opened.parameters.max_new_tokens;
    }
    EXPECT_LE(std::ssize(schedule.prefills), limits_.prefill_steps);
    for (size_t i = 0; i < schedule.prefills.size(); ++i) {
      run(schedule.prefills[i], /*is_last=*/i + 1 == schedule.prefills.size());
    }
    EXPECT_LE(schedule.decode_steps, limits_.decode_steps);
    EXPECT_LE(schedule.decode_steps, largest_budget());
    for (int32_t step = 0; step < schedule.decode_steps; ++step) {
      for (Slot& slot : slots_) {
        if (slot.is_prefilled && slot.budget > 0) --slot.budget;
      }
    }
  }

  /// The prompts that were prefilled to their end, in the order of that.
  std::vector<std::vector<int32_t>> prompts;

 private:
  struct Slot {
    bool is_open = false;
    bool is_prefilled = false;
    int64_t budget = 0;
    std::vector<int32_t> ids;
  };

  int64_t largest_budget() const {
    int64_t largest = 0;
    for (const Slot& slot : slots_) largest = std::max(largest, slot.is_prefilled ? slot.budget : 0);
    return largest;
  }

  void run(const shards::PrefillRows& rows, bool is_last) {
    const auto count = std::ssize(rows.ids);
    ASSERT_EQ(std::ssize(rows.slot), count);
    ASSERT_EQ(std::ssize(rows.position), count);
    ASSERT_EQ(rows.logit_rows.size(), slots_.size());
    EXPECT_GT(count, 0);
    EXPECT_LE(count, limits_.chunk);
    const bool must_be_full = !is_last && !limits_.rows_of_one_slot && limits_.rows_beside_decodes == 0;
    EXPECT_TRUE(!must_be_full || count == limits_.chunk) << "padding before the tail";
    for (int64_t row = 0; row < count; ++row) {
      Slot& slot = slots_[rows.slot[row]];
      EXPECT_TRUE(slot.is_open && !slot.is_prefilled);
      EXPECT_EQ(rows.position[row], std::ssize(slot.ids));
      EXPECT_TRUE(!limits_.rows_of_one_slot || rows.slot[row] == rows.slot[0]);
      slot.ids.push_back(rows.ids[row]);
    }
    for (size_t s = 0; s < slots_.size(); ++s) {
      const int32_t row = rows.logit_rows[s];
      if (row < 0) continue;
      ASSERT_LT(row, count);
      EXPECT_EQ(rows.slot[row], static_cast<int32_t>(s));
      EXPECT_EQ(rows.ids[row], slots_[s].ids.back());
      slots_[s].is_prefilled = true;
      --slots_[s].budget;
      prompts.push_back(slots_[s].ids);
    }
  }

  PlannerLimits limits_;
  std::vector<Slot> slots_;
  int32_t next_number_ = 0;
};

}  // namespace lockstep::actors
