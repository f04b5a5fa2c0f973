// One rank's part of a model, ready to run: weight slices, static KV and slot states, and two executables.
//
//   spec + partition ──family──► prefill graph, decode graph ──passes──► Backend::make_store, load, compile ──► Shard
//
// A shard replays its two graphs and nothing else. What changes between requests (which slot holds what, how it draws
// and ends) is state that `open_slot` and `close_slot` write.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/graph/passes.h"
#include "shards/engine.h"
#include "shards/families/family.h"
#include "shards/partition/partition.h"
#include "shards/weights.h"

namespace lockstep::shards {

/// The static sizes of a shard.
struct ShardOptions {
  int64_t slots = 1;
  int64_t chunk = 256;      // rows of a prefill step
  int64_t capacity = 2048;  // tokens that a slot holds
  DType dtype = DType::kFloat32;
  families::StepShape::Logits logits = families::StepShape::Logits::kDropped;

  /// Fails with `kInvalidArgument` naming the field that makes no sense.
  Result<void> validate() const;
};

/// The two graphs of a rank, after the passes, and the checkpoint tensors behind their weights.
struct ShardGraphs {
  graph::Graph prefill;
  graph::Graph decode;
  std::map<std::string, Shape> tensors;

  /// The closed set: every graph that is compiled at start, in that order.
  std::array<const graph::Graph*, 2> all() const { return {&prefill, &decode}; }
};

/// Builds the closed set of graphs of `rank`. Pure; `explain` prints them. `passes` may be empty.
Result<ShardGraphs> build_graphs(const checkpoint::ModelSpec& spec, const partition::Partition& partition, int rank,
                                 const ShardOptions& options, const std::vector<graph::Pass>& passes);

/// The collectives of one rank's graphs, one a line with their sizes: the same text on every rank that agrees.
std::string collective_list(const ShardGraphs& graphs);

class Shard final : public Engine {
 public:
  /// Reserves memory, loads weights from `source` and compiles both graphs. `backend` and `communicator` (may be null
  /// in a group of one) outlive the shard. Not collective: nothing is sent before the first step.
  static Result<std::unique_ptr<Shard>> create(ShardGraphs graphs, const ShardOptions& options,
                                               device::Backend& backend, device::Communicator* communicator,
                                               const WeightSource& source);

  int64_t slots() const override { return options_.slots; }
  int64_t chunk() const override { return options_.chunk; }
  int64_t capacity() const override { return options_.capacity; }
  bool rows_of_one_slot() const override { return rows_of_one_slot_; }

  Result<void> open_slot(SlotId slot, const SlotParameters& parameters) override;
  Result<void> close_slot(SlotId slot) override;
  Result<StepOutput> prefill(const PrefillRows& rows, StepTag tag) override;
  Result<StepOutput> decode(StepTag tag) override;
  bool all_finished() const override;
  Result<void> confirm(StepTag tag) override;
  void request_stop(SlotId slot) override;

  const ShardGraphs& graphs() const { return graphs_; }
  device::Store& store() { return *store_; }
  /// Of the tensors that this rank holds whole.
  const std::vector<TensorFingerprint>& replicated_tensors() const { return replicated_; }

 private:
  /// The states that slot updates write, found once.
  struct States {
    device::StateId length, active, finished, last_id, output_index, parameter_hash, stop_request, step, seen;
    device::StateId temperature, top_p, min_p, repetition_penalty, top_k, do_sample, max_new_tokens, pad_id, seed, eos;
  };

  Shard(ShardGraphs graphs, const ShardOptions& options, device::Communicator* communicator);

  Result<void> find_states();
  Result<void> check_slot(SlotId slot, const char* operation) const;
  Result<void> check_rows(const PrefillRows& rows) const;
  Result<void> write_step(StepTag tag);
  Result<StepOutput> run(device::Executable& executable, std::span<const device::HostTensor> inputs);
  template <typename T>
  Result<void> write(device::StateId state, int64_t index, std::span<const T> values);
  template <typename T>
  Result<void> write_one(device::StateId state, int64_t index, T value);

  ShardGraphs graphs_;
  ShardOptions options_;
  device::Communicator* communicator_;
  bool rows_of_one_slot_ = false;
  std::unique_ptr<device::Store> store_;
  std::unique_ptr<device::Executable> prefill_, decode_;
  std::vector<TensorFingerprint> replicated_;
  States states_;

  std::vector<int32_t> ids_, slot_, position_, logit_rows_;  // [chunk] ×3, [slots]: inputs of a prefill step
  std::vector<device::HostTensor> prefill_inputs_;           // views of them
  std::vector<std::atomic<int32_t>> stop_requests_;          // [slots], set by any thread
  std::vector<int32_t> stop_scratch_;                        // [slots]
  std::vector<uint8_t> no_ids_seen_;                         // [vocabulary] of zeros
  std::vector<std::byte> own_payload_, payloads_;            // of `confirm`
};

}  // namespace lockstep::shards
