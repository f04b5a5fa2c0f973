// An engine without a model, for tests of the actors. Its tokens are a pure function of everything a slot has seen, so
// that a lost, doubled or displaced prompt row changes the answer. Ranks of one `FakeGroup` run every step together,
// like real ranks with collectives. A test can make it fail or block at a step.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

/// Every wait of these tests ends in time, well or with a failure.
inline constexpr Duration kPatience = std::chrono::seconds(20);

/// The new tokens that a prompt must get: the oracle of these tests. Sequences of more than `long_rope_after` tokens
/// (0: none) are continued by the long factors.
std::vector<int32_t> expected_answer(const std::vector<int32_t>& prompt, const shards::SlotParameters& parameters,
                                     int64_t long_rope_after = 0);

/// The token that follows `seen`, as output `index`.
int32_t next_token(const std::vector<int32_t>& seen, const shards::SlotParameters& parameters, int32_t index);

/// The logits after `seen`: a pure function of all of it.
std::vector<float> expected_logits(const std::vector<int32_t>& seen, int64_t vocabulary);

/// Synchronises the ranks of a group once per step.
class FakeGroup {
 public:
  explicit FakeGroup(int size) : size_(size) {}

  /// Waits for all ranks; returns the slots that any rank wants to stop, or the flag's reason.
  Result<std::vector<bool>> meet(const AbortFlag& abort, const std::vector<bool>& stops);

  /// Gives rank 0's `decision` to all ranks.
  Result<void> broadcast(const AbortFlag& abort, int rank, shards::Decision& decision);

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable met_;
  int arrived_ = 0;
  int64_t generation_ = 0;
  std::vector<bool> proposed_;
  std::vector<bool> agreed_;
  std::optional<shards::Decision> decision_;
};

struct FakeEngineOptions {
  int64_t slots = 2;
  int64_t chunk = 4;
  std::vector<int64_t> chunk_sizes = {};  // empty: only `chunk`
  int64_t capacity = 64;
  bool rows_of_one_slot = false;
  int64_t vocabulary = 0;  // > 0: logits rows of this width
  int64_t tokens_per_step = 1;
  int64_t long_rope_after = 0;
  int rank = 0;
};

class FakeEngine final : public shards::StepEngine {
 public:
  using Options = FakeEngineOptions;

  FakeEngine(Options options, FakeGroup& group, const AbortFlag& abort);

  int64_t slots() const override { return options_.slots; }
  int64_t chunk() const override { return options_.chunk; }
  std::vector<int64_t> chunk_sizes() const override {
    return options_.chunk_sizes.empty() ? std::vector<int64_t>{options_.chunk} : options_.chunk_sizes;
  }
  int64_t capacity() const override { return options_.capacity; }
  int64_t tokens_per_step() const override { return options_.tokens_per_step; }
  bool rows_of_one_slot() const override { return options_.rows_of_one_slot; }
  int64_t long_rope_after() const override { return options_.long_rope_after; }
  Result<void> open_slot(SlotId slot, const shards::SlotParameters& parameters) override;
  Result<void> close_slot(SlotId slot) override;
  Result<shards::StepOutput> prefill(const shards::PrefillRows& rows, shards::StepTag tag) override;
  Result<shards::StepOutput> decode(shards::StepTag tag) override;
  Result<void> decide(shards::Decision& decision) override;
  bool all_finished() const override;
  Result<void> confirm(shards::StepTag tag) override;
  void request_stop(SlotId slot) override;

  /// The result that step number `step` (over all schedules, from 0), or the confirm after it, returns instead of
  /// running.
  void fail_at(int64_t step, Error error) { failures_[step] = std::move(error); }
  void fail_confirm(Error error, int after = 0) {  // `after` good ones
    confirm_failure_ = std::move(error);
    good_confirms_ = after;
  }
  /// Throws from step `step`, as a failed check of ours does.
  void break_at(int64_t step) { break_at_ = step; }
  /// Step `step` waits until `unblock`, or until the flag is raised.
  void block_at(int64_t step) { block_at_ = step; }
  /// Waits until the step of `block_at` is reached.
  bool wait_until_blocked();
  void unblock();

  struct Ran {
    int32_t schedule = 0;
    int32_t step = 0;
    friend bool operator==(const Ran&, const Ran&) = default;
  };
  const std::vector<Ran>& ran() const { return ran_; }  // read after the executor has ended
  int confirms() const { return confirms_; }
  int64_t prefilled_rows() const { return prefilled_rows_; }
  int64_t copies() const { return copies_; }
  std::vector<SlotId> stop_requests() const;

 private:
  struct Slot {
    bool is_open = false;
    bool is_prefilled = false;
    bool is_finished = false;
    int32_t output_index = 0;
    std::vector<int32_t> seen;  // the last one only as the next step's input
    shards::SlotParameters parameters;
  };

  Result<void> begin(shards::StepTag tag);
  Result<void> wait_if_blocked(int64_t step);
  Result<void> copy(shards::SlotCopy copy);
  Result<void> take_row(const shards::PrefillRows& rows, size_t row);
  Result<void> make_token(size_t slot, size_t index);
  Result<void> make_tokens(size_t slot);
  shards::StepOutput output();

  const Options options_;
  FakeGroup& group_;
  const AbortFlag& abort_;
  std::vector<Slot> slots_;
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;
  std::vector<Ran> ran_;
  int confirms_ = 0, good_confirms_ = 0;
  int64_t prefilled_rows_ = 0;
  int64_t copies_ = 0;

  std::map<int64_t, Error> failures_;
  std::optional<Error> confirm_failure_;
  std::optional<int64_t> break_at_;
  std::optional<int64_t> block_at_;

  mutable std::mutex mutex_;  // guards the members used by other threads
  std::condition_variable changed_;
  bool is_blocked_ = false;
  bool is_released_ = false;
  std::vector<SlotId> stop_requests_;
  std::vector<bool> proposed_stops_;
  std::vector<bool> agreed_stops_;  // of this step: the executor's thread only
};

}  // namespace lockstep::actors
