// One rank's part of a model, ready to run: weight slices, static KV and slot states, and its closed set of
// executables.
//
//   spec + partition ──families──► graphs ──passes──► Backend::make_store, load, compile ──► Shard
//
// A shard only replays its graphs. The differences between requests (contents of slots, sampling and stopping
// parameters) are state that is written between two replays.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "runtime/device/backend.h"
#include "shards/row_inputs.h"
#include "shards/shard_graphs.h"
#include "shards/slot_states.h"
#include "shards/step_checks.h"
#include "shards/step_engine.h"
#include "shards/weights.h"

namespace lockstep::shards {

class Shard final : public StepEngine {
 public:
  /// Reserves memory, loads weights from `source` and compiles all graphs. `backend` and `communicator` (may be null
  /// in a group of one) outlive the shard; `sums` (may be null) sums the weights that are read. Not collective: the
  /// first message is sent by the first step.
  static Result<std::unique_ptr<Shard>> create(ShardGraphs graphs, const ShardOptions& options,
                                               device::Backend& backend, device::Communicator* communicator,
                                               const WeightSource& source, PartSums* sums = nullptr);

  int64_t slots() const override { return options_.slots; }
  int64_t chunk() const override { return options_.chunk; }
  int64_t capacity() const override { return options_.capacity; }
  int64_t tokens_per_step() const override { return 1; }
  std::vector<int64_t> chunk_sizes() const override { return chunk_sizes_; }
  int64_t score_rows() const override { return options_.score_rows; }
  int64_t embedding_size() const override;
  KeptTokens kept_tokens() const override { return kept_; }
  bool rows_of_one_slot() const override { return rows_of_one_slot_; }
  int64_t long_rope_after() const override { return graphs_.long_rope_after; }

  Result<void> open_slot(SlotId slot, const SlotParameters& parameters) override;
  Result<void> close_slot(SlotId slot) override;
  Result<void> save_slot(SlotCopy copy, int64_t tokens) override;
  Result<void> begin_with(SlotId slot, const KeptPrefix& prefix) override;
  Result<StepOutput> prefill(const PrefillRows& rows, StepTag tag) override;
  Result<ScoreOutput> score(const ScoreRows& rows, StepTag tag) override;
  Result<StepOutput> decode(StepTag tag) override;
  Result<void> decide(Decision& decision) override;
  bool all_finished() const override;
  Result<void> confirm(StepTag tag) override;
  void request_stop(SlotId slot) override;
  void time_device() override;
  device::DeviceTime device_time() const override;

  /// Scores the last token of every running slot and the drafts `drafted` i32 [slots, drafts] after it (−1: no more
  /// drafts of that slot; drafts beyond the capacity are dropped). Outputs the tokens of plain decoding, to the bit:
  /// the accepted drafts and one more. The output's tokens are [slots, 1 + drafts].
  /// @collective @blocking
  Result<StepOutput> verify(std::span<const int32_t> drafted, StepTag tag);

  Result<SlotProgress> progress(SlotId slot) const { return states_->progress(slot); }
  /// Whether the slot takes part in the next decode step.
  Result<bool> runs(SlotId slot) const { return states_->runs(slot); }
  /// Sets `slot` to the length, output index and seen ids of another shard's slot, for a shard that follows it.
  Result<void> follow(SlotId slot, const Shard& other);

  const ShardGraphs& graphs() const { return graphs_; }
  const ShardOptions& options() const { return options_; }
  device::Store& store() { return *store_; }
  /// Replays of each graph so far, in the order of `graphs().all()`.
  const std::vector<int64_t>& replays() const { return replays_; }
  /// The compiled graphs, in the same order.
  const std::vector<std::unique_ptr<device::Executable>>& executables() const { return executables_; }

 private:
  Shard(ShardGraphs graphs, const ShardOptions& options, device::Communicator* communicator);

  Result<void> compile(device::Backend& backend);
  StepBounds bounds() const;
  /// Broadcasts rank 0's decision. @collective @blocking
  Result<void> share(Decision& decision);
  /// Sends the copied slot's contents to the rank of the other slot, where slots are divided between ranks.
  /// @collective @blocking
  Result<void> copy_slot(const SlotCopy& copy);
  Result<void> copy_cache(const SlotCopy& copy, int64_t tokens);
  Result<void> write_step(StepTag tag);
  /// Adds the rows of a step to what ranks compare: they are inputs, which a wrong sum would make equal again.
  void note_rows(std::span<const int32_t> ids, std::span<const int32_t> slots, std::span<const int32_t> positions);
  Result<size_t> decode_graph() const;
  Result<StepOutput> run(size_t executable, std::span<const device::HostTensor> inputs);

  ShardGraphs graphs_;
  ShardOptions options_;
  device::Communicator* communicator_;
  bool rows_of_one_slot_ = false;
  KeptTokens kept_;
  std::vector<int64_t> chunk_sizes_;
  std::unique_ptr<device::Store> store_;
  std::vector<std::unique_ptr<device::Executable>> executables_;  // in the order of `graphs_.all()`
  std::vector<int64_t> replays_;                                  // likewise
  std::unique_ptr<SlotStates> states_;

  std::vector<PrefillSize> prefill_sizes_;           // of the prefill graphs
  std::vector<RowInputs> prefill_inputs_;            // likewise
  std::vector<RowInputs> verify_inputs_;             // none, or one
  std::vector<RowInputs> score_inputs_;              // none, or one
  std::vector<std::atomic<int32_t>> stop_requests_;  // [slots], set by any thread
  std::vector<int32_t> stop_scratch_;                // [slots]
  std::vector<int32_t> decision_payload_;            // [3 · slots]
  std::vector<std::byte> own_payload_, payloads_;    // of `confirm`
  std::vector<std::byte> carried_;                   // keys and values to send to another rank
};

}  // namespace lockstep::shards
