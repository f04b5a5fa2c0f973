// The weights and states of one rank. Weights share one mapping of huge pages, each in the forms read by the graphs
// (packed panels, panels of codes, rows). KV caches are in reserved regions (kv_layout.h), small states one after the
// other.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/cpu/coded_packing.h"
#include "runtime/backends/cpu/kv_layout.h"
#include "runtime/backends/cpu/memory.h"
#include "runtime/backends/cpu/packing.h"
#include "runtime/backends/cpu/thread_team.h"
#include "runtime/backends/cpu/weight_loading.h"
#include "runtime/device/backend.h"
#include "runtime/device/slot_transfer.h"

namespace lockstep::cpu {

/// A weight in one form.
struct PackedWeight {
  Packing packing;
  const std::byte* data = nullptr;
};

class Store final : public device::Store, public device::SlotTransfer {
 public:
  /// Reserves the weights and states of `steps`; packs weights for `kernels`, with `team` (both borrowed).
  static Result<std::unique_ptr<Store>> create(std::span<const device::StepGraph> steps, const Kernels& kernels,
                                               ThreadTeam& team);

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
  std::vector<device::ResidentWeight> resident_weights() const override;
  int64_t slot_bytes(int64_t tokens) const override;
  Result<void> take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const override;
  Result<void> put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) override;

  /// For the compiler. Each returns empty (or null) when the store lacks the value.
  std::optional<PackedWeight> packed(std::string_view name, const Packing& packing) const;
  std::optional<PackedWeight> any_packed(std::string_view name) const;
  std::optional<CodedWeight> coded(std::string_view name, const CodedPacking& packing) const;
  std::optional<CodedWeight> any_coded(std::string_view name) const;
  const std::byte* rows(std::string_view name) const;
  std::byte* dense_state(std::string_view name) const;
  const CacheLayout* cache(std::string_view name) const;
  /// Fails with `kFailedPrecondition` naming a weight that was never set.
  Result<void> require_weights() const;
  /// Adds an executable's workspace to the memory report.
  void add_workspace(int64_t bytes) { workspace_ += bytes; }
  void remove_workspace(int64_t bytes) { workspace_ -= bytes; }

 private:
  struct Form {
    Packing packing;
    int64_t offset = 0;
  };
  struct CodedPanels {
    CodedPacking packing;
    int64_t offset = 0;
  };
  struct Weight {
    TensorType type;
    std::optional<WeightFormat> format = std::nullopt;
    bool needs_rows = false;
    bool is_table = false;     // read by `embedding`, which also supports panels
    int64_t rows_offset = -1;  // in the mapping
    std::vector<Form> panels = {};
    std::vector<CodedPanels> coded = {};
    bool is_set = false;
  };
  /// How rows are appended to a cache.
  struct Ring {
    bool is_ring = false;
    int64_t pinned = 0;
    friend bool operator==(const Ring&, const Ring&) = default;
  };
  struct State {
    std::string name;
    TensorType type;
    std::optional<CacheRole> role = std::nullopt;
    std::optional<Ring> ring = std::nullopt;  // caches only: the mode of appending, once known from a graph
    CacheLayout cache = {};                   // caches only
    bool is_carried = false;                  // dense states: belongs to the slots' sequences
    int64_t offset = 0;                       // dense states: into their mapping; caches: into a tile of their region

    bool belongs_to_slots() const { return role || is_carried; }
  };

  Store(const Kernels& kernels, ThreadTeam& team) : kernels_(kernels), team_(team) {}
  Result<void> add_values(const graph::Graph& graph);
  Result<void> add_uses(const graph::Graph& graph);
  Result<void> add_role(std::string_view name, CacheRole role);
  static void add_packing(Weight& weight, const Packing& packing);
  /// All forms of a weight must have the same groups.
  Result<void> add_coded(const graph::Value& value, Weight& weight, const CodedPacking& packing);
  void quantise_weight(const Weight& weight, std::span<const std::byte> bytes);
  Result<Weight*> find_weight(std::string_view name, int64_t bytes);
  WeightPlace place_of(const Weight& weight, const graph::Value& value) const;
  void mark_set(Weight& weight);
  Result<void> map_weights();
  Result<void> map_states();
  Result<void> add_appends(const graph::Graph& graph);
  Result<void> add_append(const std::string& name, const graph::Node& append);
  CacheLayout layout_of(const State& state) const;
  /// Places every cache in its region; returns the bytes of all regions.
  int64_t lay_out_caches();
  Result<void> map_caches();
  const State& state(device::StateId id) const;
  /// The memory of a carried state for `slot`.
  std::span<std::byte> carried(const State& state, int64_t slot) const;
  /// Calls `visit(memory, bytes)` for every contiguous range of `slot` that `tokens` positions use.
  template <typename Visit>
  void for_each_stretch(int64_t slot, int64_t tokens, Visit visit) const;
  Result<void> check_carried(int64_t slot, int64_t tokens, size_t bytes) const;
  Result<void> check_range(const State& state, int64_t offset, size_t bytes) const;

  const Kernels& kernels_;
  ThreadTeam& team_;
  std::map<std::string, Weight, std::less<>> weights_;
  std::vector<State> states_;
  std::map<std::string, int32_t, std::less<>> state_index_;
  Mapping weight_memory_, dense_memory_, cache_memory_;
  Mapping written_memory_;  // `CacheLayout::written` of the rings
  int64_t workspace_ = 0;
  int64_t unset_weights_ = 0;
};

}  // namespace lockstep::cpu
