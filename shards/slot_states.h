// The dense states of the slots, as named in the graphs: sampling and stopping parameters, and progress. They are
// written only between replays and are the same on every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/sampling/slot.h"
#include "shards/step_engine.h"

namespace lockstep::shards {

/// The progress of a slot.
struct SlotProgress {
  int32_t length = 0;        // tokens in the caches
  int32_t last_id = 0;       // chosen, not yet in the caches
  int32_t output_index = 0;  // of the next token
  int32_t active = 0;        // 1: prefilled to its end
  int32_t finished = 0;

  bool runs() const { return active != 0 && finished == 0; }
  friend bool operator==(const SlotProgress&, const SlotProgress&) = default;
};

class SlotStates {
 public:
  /// Finds the states; the store outlives this. A required state that the store lacks is a failed check.
  SlotStates(device::Store& store, int64_t slots, int64_t vocabulary);

  int64_t slots() const { return slots_; }
  int64_t vocabulary() const { return static_cast<int64_t>(seen_row_.size()); }

  /// Empties the slot and sets its parameters. Fails with `kInvalidArgument` for parameters that no slot can have.
  Result<void> open(SlotId slot, const SlotParameters& parameters);
  Result<void> close(SlotId slot);
  /// Notes that the caches of the open, empty slot hold `ids`, and marks them as seen.
  Result<void> begin_with(SlotId slot, std::span<const int32_t> ids);

  Result<SlotProgress> progress(SlotId slot) const;
  /// `progress(slot).runs()`, of two reads.
  Result<bool> runs(SlotId slot) const;
  Result<void> set_progress(SlotId slot, const SlotProgress& progress);
  Result<void> activate(SlotId slot);

  /// Sets the progress and seen ids of `dst` to those of `src`. A slot that is still being prefilled keeps its output
  /// index.
  Result<void> copy(SlotId src, SlotId dst);
  /// Copies the seen ids of another store's slot.
  Result<void> copy_seen(const SlotStates& from, SlotId slot);

  /// Adds a value that each rank has received for `slot`, such as a token of its prompt, to what the ranks compare in
  /// the next step and all later ones of the slot.
  void note(SlotId slot, uint64_t value);

  /// Writes the step's number, the noted values and the stop requests, i32 [slots].
  Result<void> write_step(StepTag tag, std::span<const int32_t> stop_requests);

  /// The checksum for the ranks' agreement on the step before `tag`.
  Result<uint64_t> checksum(StepTag tag) const;

 private:
  template <typename T>
  Result<void> write(device::StateId state, SlotId slot, std::span<const T> row);
  Result<void> write_one(device::StateId state, SlotId slot, int32_t value);
  Result<int32_t> read_one(device::StateId state, SlotId slot) const;
  Result<std::vector<int32_t>> read_all(device::StateId state) const;

  device::Store& store_;
  int64_t slots_;
  device::StateId length_, active_, finished_, last_id_, output_index_, parameter_hash_, stop_request_, step_, seen_;
  device::StateId draw_numbers_, draw_integers_, seed_, eos_;
  std::optional<device::StateId> long_rope_;  // of longrope models
  std::vector<uint8_t> seen_row_;             // [vocabulary]: scratch
  std::vector<int32_t> hashes_;               // [slots]: of parameters and noted values
  bool has_noted_ = false;                    // since they were written
};

}  // namespace lockstep::shards
