// Weights and states of one rank: tensors on its core in the modules' layout, bound by every executable of the store.
// Tensors that no module reads are on the host.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backends/neuron/lowering.h"
#include "runtime/backends/neuron/nrt/runtime.h"
#include "runtime/device/backend.h"
#include "runtime/device/slot_transfer.h"

namespace lockstep::neuron {

/// The graphs of all ranks; in a group of one, the rank's own.
std::span<const graph::Graph> group_of(const device::StepGraph& step);

class Store final : public device::Store, public device::SlotTransfer {
 public:
  /// Lowers `steps` and reserves their tensors. The runtime outlives the store. Fails as `lower` does, and with
  /// `kResourceExhausted` when the core has not enough memory left.
  static Result<std::unique_ptr<Store>> make(nrt::Runtime& runtime, std::span<const device::StepGraph> steps);

  Result<void> set_weight(std::string_view name, std::span<const std::byte> bytes) override;
  std::optional<device::StateId> find_state(std::string_view name) const override;
  Result<void> write_state(device::StateId state, int64_t offset, std::span<const std::byte> bytes) override;
  Result<void> read_state(device::StateId state, int64_t offset, std::span<std::byte> bytes) const override;
  Result<void> copy_slot(int64_t src, int64_t dst, int64_t tokens) override;
  Result<std::vector<std::byte>> read_cache(device::StateId state) const override;
  const void* state_address(device::StateId state) const override;
  device::MemoryReport memory() const override;
  int64_t slot_bytes(int64_t tokens) const override;
  Result<void> take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const override;
  Result<void> put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) override;

  nrt::Runtime& runtime() { return runtime_; }

  /// The lowered form of `step`, moved out of the store if `make` lowered it, otherwise lowered again. Fails as `lower`
  /// does.
  Result<LoweredStep> take_lowered(const device::StepGraph& step);

  /// The tensor for `parameter`, a weight or state of a module. Fails with `kInvalidArgument` when the store was not
  /// made for it.
  Result<const nrt::Tensor*> bound(const Parameter& parameter) const;

  /// Marks the host's copy of a state as outdated, after a step has updated it on the device. `name` is one of the
  /// store's.
  void forget_host_copy(device::StateId state);

  /// Counts the buffers of an executable over this store in its memory report.
  void add_workspace(Bytes bytes) { workspace_ += bytes; }

  /// Fails with `kFailedPrecondition`, naming a weight without contents.
  Result<void> require_weights();

 private:
  struct Entry {
    std::string name;
    TensorType type;                     // the graph's
    bool is_cache = false;               // states: a KV cache
    bool has_contents = false;           // weights
    std::optional<Parameter> parameter;  // its device layout; none: no module reads it
    std::optional<nrt::Tensor> tensor;   // none: no module reads it
    /// States: the contents if no module reads it, or a copy of a small state that modules update.
    mutable std::vector<std::byte> host;
    mutable bool host_is_fresh = false;
  };
  using Index = std::map<std::string, size_t, std::less<>>;

  explicit Store(nrt::Runtime& runtime) : runtime_(runtime) {}

  Result<void> lower_step(const device::StepGraph& step);
  Result<void> add_graph(const graph::Graph& graph);
  Result<void> add_value(const graph::Value& value, std::vector<Entry>& entries, Index& index);
  Result<void> add_parameters(const ModuleSignature& signature);
  /// Converts a host tensor and writes it to a weight's tensors. An 8-bit weight has several.
  Result<void> fill(Entry& weight, std::span<const std::byte> bytes);
  Result<void> check_budget() const;
  Result<void> allocate();
  const Entry& entry(device::StateId state) const;
  Result<void> check_access(const Entry& state, int64_t offset, size_t bytes) const;
  Result<void> refresh(const Entry& state) const;
  /// Copies the first `tokens` positions of a cache to the host in portions, calls `change(bytes of all slots)` for
  /// each, and writes them back if the cache is not const.
  template <typename CacheEntry, typename Change>
  static Result<void> visit_positions(CacheEntry& cache, int64_t tokens, std::span<std::byte> scratch, Change change);
  static Range bytes_of(const Entry& cache, int64_t slot);
  /// The same for every cache, with the bytes of one slot.
  template <typename Entries, typename Change>
  static Result<void> visit_slot(Entries& states, int64_t slot, int64_t tokens, std::span<std::byte> scratch,
                                 Change change);
  Entry* find(Role role, std::string_view name);

  nrt::Runtime& runtime_;
  int rank_ = 0;
  std::vector<std::pair<graph::Graph, std::optional<LoweredStep>>> lowered_;  // by this rank's graph
  std::vector<Entry> weights_;
  std::vector<Entry> states_;
  Index weight_index_;
  Index state_index_;
  std::vector<std::byte> copy_scratch_;
  bool has_weights_ = false;  // all of them are set
  Bytes workspace_;
};

}  // namespace lockstep::neuron
