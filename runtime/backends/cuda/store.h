// The weights and states of one rank. Weights lie in one block of device memory, each in the forms that the graphs
// read; KV caches in one range of addresses whose pages are committed as tokens arrive. Dense states are the host's:
// it alone writes them, and a step takes along those that kernels read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/cuda/rank_device.h"
#include "runtime/backends/cuda/store_layout.h"
#include "runtime/cuda/paged_memory.h"
#include "runtime/device/slot_transfer.h"

namespace lockstep::cuda {

class Store final : public device::Store, public device::SlotTransfer {
 public:
  static Result<std::unique_ptr<Store>> create(std::span<const device::StepGraph> steps, const RankDevice& device);

  Result<void> set_weight(std::string_view name, std::span<const std::byte> bytes) override;
  Result<void> load(const graph::Graph& graph, const device::WeightReader& reader) override;
  std::optional<device::StateId> find_state(std::string_view name) const override;
  Result<void> write_state(device::StateId state, int64_t offset, std::span<const std::byte> bytes) override;
  Result<void> read_state(device::StateId state, int64_t offset, std::span<std::byte> bytes) const override;
  Result<void> copy_slot(int64_t src, int64_t dst, int64_t tokens) override;
  void release_caches() override;
  Result<std::vector<std::byte>> read_cache(device::StateId state) const override;
  const void* state_address(device::StateId state) const override;
  device::MemoryReport memory() const override;
  int64_t slot_bytes(int64_t tokens) const override;
  Result<void> take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const override;
  Result<void> put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) override;

  // For executables.
  const StoreLayout& layout() const { return layout_; }
  cu::DeviceAddress weights() const { return weight_memory_.address(); }
  cu::DeviceAddress caches() const { return cache_memory_->address(); }
  std::byte* dense_state(const StateLayout& state) { return dense_memory_.data() + state.offset; }
  /// Fails with `kFailedPrecondition` naming a weight that was never set.
  Result<void> require_weights() const;
  /// Commits the memory that these rows write in `state`, and notes what its ring holds. Slots below 0 are padding; the
  /// others are in range. Clearing new memory is enqueued.
  Result<void> prepare_rows(const StateLayout& state, std::span<const int32_t> slots,
                            std::span<const int32_t> positions);
  void add_workspace(int64_t bytes) { workspace_ += bytes; }
  void remove_workspace(int64_t bytes) { workspace_ -= bytes; }

 private:
  Store(StoreLayout layout, const RankDevice& device) : layout_(std::move(layout)), device_(device) {}
  Result<void> reserve();
  using WeightEntry = std::map<std::string, WeightLayout, std::less<>>::const_iterator;
  Result<WeightEntry> find_weight(std::string_view name, int64_t bytes) const;
  void mark_set(WeightEntry weight);
  Result<void> upload(cu::DeviceAddress dst, std::span<const std::byte> bytes) const;
  Result<void> download(std::span<std::byte> dst, cu::DeviceAddress src) const;
  Result<void> commit(int64_t begin, int64_t bytes);
  /// Commits what these slots carry on.
  Result<void> commit_carried(const StateLayout& state, std::span<const int32_t> slots);
  const StateLayout& state(device::StateId id) const;
  Result<void> check_range(const StateLayout& state, int64_t offset, size_t bytes) const;
  Result<void> check_carried(int64_t slot, int64_t tokens, size_t bytes) const;
  std::span<int32_t> written(const StateLayout& cache, int64_t slot) const;

  const StoreLayout layout_;
  const RankDevice device_;
  cu::DeviceMemory weight_memory_;
  std::unique_ptr<cu::PagePool> pool_;
  std::unique_ptr<cu::PagedMemory> cache_memory_;
  mutable cu::PinnedMemory staging_;
  std::vector<std::byte> dense_memory_;
  mutable std::vector<std::vector<int32_t>> written_;  // by state; of rings [slots, capacity]: last position, plus 1
  std::vector<bool> is_set_;                           // by weight, in the order of the layout
  int64_t workspace_ = 0;
};

}  // namespace lockstep::cuda
