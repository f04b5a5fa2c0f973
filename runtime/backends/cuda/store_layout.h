// Where a store keeps its weights and states: computed from the graphs alone, before there is memory.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/backends/cuda/coded_packing.h"
#include "runtime/backends/cuda/kv_layout.h"
#include "runtime/backends/cuda/packing.h"
#include "runtime/device/backend.h"

namespace lockstep::cuda {

/// A stack of equally packed matrices: experts, or one matrix.
struct StackedPacking {
  FragmentPacking matrix;
  int64_t parts = 1;

  int64_t bytes() const { return parts * matrix.bytes(); }
  friend bool operator==(const StackedPacking&, const StackedPacking&) = default;
};

/// How a node reads a weight: row by row, in fragments, or in codes.
using Packing = std::variant<std::monostate, StackedPacking, CodedPacking>;

/// Whether a node is a product of many rows, and its weight has elements.
bool is_product_of_many_rows(const graph::Graph& graph, const graph::Node& node);

/// The packing of `operand` of `node`, as the store makes it and the lowering finds it.
Packing packing_of(const graph::Graph& graph, const graph::Node& node, size_t operand);

/// A weight in one form, at an offset of the memory of all weights.
struct WeightForm {
  Packing packing;
  int64_t offset = 0;
};

struct WeightLayout {
  TensorType type;
  std::optional<WeightFormat> format;
  std::vector<WeightForm> forms;
};

/// The memory of a weight in one form.
int64_t bytes_of(const WeightLayout& weight, const WeightForm& form);

struct StateLayout {
  std::string name;
  TensorType type;
  std::optional<CacheLayout> cache;
  std::optional<int64_t> carried;  // of what a recurrence carries on: its offset in the memory of the caches
  int64_t offset = 0;              // of a dense state, in the host's memory

  bool belongs_to_slots() const { return cache || carried; }
  /// Where a carried state of `slot` lies in the memory of the caches, and its bytes.
  int64_t slot_offset(int64_t slot) const { return *carried + slot * slot_bytes(); }
  int64_t slot_bytes() const { return type.bytes() / type.shape[0]; }
};

struct StoreOptions {
  bool keeps_rows_of_products = false;  // weights of products of many rows also row by row

  friend bool operator==(const StoreOptions&, const StoreOptions&) = default;
};

struct StoreLayout {
  /// Fails with `kInvalidArgument` where graphs disagree about a value.
  static Result<StoreLayout> of(std::span<const device::StepGraph> steps, const StoreOptions& options = {});

  /// Null: none.
  const WeightForm* form(std::string_view name, const Packing& packing) const;
  const StateLayout* state(std::string_view name) const;
  const CacheLayout* cache(std::string_view name) const;
  /// Whether a state is in the device's memory; the others are in the host's.
  bool is_on_device(std::string_view name) const;

  std::map<std::string, WeightLayout, std::less<>> weights;
  std::vector<StateLayout> states;
  std::map<std::string, size_t, std::less<>> state_index;
  int64_t weight_bytes = 0;
  int64_t cache_bytes = 0;
  int64_t dense_bytes = 0;
};

}  // namespace lockstep::cuda
