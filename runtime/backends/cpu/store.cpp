#include "runtime/backends/cpu/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::cpu {
namespace {

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/cpu] " + std::move(message)};
}

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// The packing of a matrix that no product reads.
CodedPacking table_packing(const TensorType& type, const WeightFormat& format) {
  const int64_t columns = type.shape[1];
  return {.n = type.shape[0],
          .groups = {.columns = columns, .leaf = std::max<int64_t>(columns, 1), .width = format.group},
          .format = format};
}

}  // namespace

Result<std::unique_ptr<Store>> Store::create(std::span<const device::StepGraph> steps, const Kernels& kernels,
                                             ThreadTeam& team) {
  std::unique_ptr<Store> store(new Store(kernels, team));
  for (const device::StepGraph& step : steps) LOCKSTEP_TRY_VOID(store->add_values(step.own));
  for (const device::StepGraph& step : steps) LOCKSTEP_TRY_VOID(store->add_uses(step.own));
  for (const device::StepGraph& step : steps) LOCKSTEP_TRY_VOID(store->add_appends(step.own));
  LOCKSTEP_TRY_VOID(store->map_weights());
  LOCKSTEP_TRY_VOID(store->map_states());
  return store;
}

Result<void> Store::add_values(const graph::Graph& graph) {
  const auto disagree = [](const graph::Value& value, const TensorType& known) {
    return invalid(fmt::format("two graphs disagree about {}: found {}, expected {} as in the first graph", value.name,
                               to_string(value.type), to_string(known)));
  };
  for (const graph::Value& value : graph.values) {
    if (value.kind == graph::ValueKind::kWeight) {
      const auto [found, is_new] = weights_.try_emplace(value.name, Weight{.type = value.type, .format = value.format});
      if (!is_new && found->second.type != value.type) return disagree(value, found->second.type);
      if (found->second.format != value.format) {
        return invalid(fmt::format("two graphs disagree about the format of {}; use graphs of one model", value.name));
      }
    }
    if (value.kind == graph::ValueKind::kState) {
      const auto [found, is_new] = state_index_.try_emplace(value.name, static_cast<int32_t>(states_.size()));
      if (is_new) states_.push_back({.name = value.name, .type = value.type});
      const TensorType& known = states_[found->second].type;
      if (known != value.type) return disagree(value, known);
    }
  }
  return ok();
}

Result<void> Store::add_role(std::string_view name, CacheRole role) {
  const auto found = state_index_.find(name);
  if (found == state_index_.end()) {
    return invalid(fmt::format("cannot lay out cache {}: found a value that is not a state, expected a state", name));
  }
  std::optional<CacheRole>& known = states_[found->second].role;
  if (known && *known != role) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/backends/cpu] cannot lay out cache {}: found it read as keys and as values, "
                             "expected one of them",
                             name)};
  }
  known = role;
  return ok();
}

Result<void> Store::add_uses(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const graph::Value& value = graph.value(node.operands[i]);
      if (value.kind != graph::ValueKind::kWeight) continue;
      Weight& weight = weights_.find(value.name)->second;
      if (const std::optional<CodedPacking> coded = coded_packing_of(graph, node, i)) {
        LOCKSTEP_TRY_VOID(add_coded(value, weight, *coded));
      } else if (value.format) {
        weight.is_table = true;
      } else if (const std::optional<Packing> packing = packing_of(kernels_, graph, node, i)) {
        add_packing(weight, *packing);
      } else if (node.op == graph::Op::kEmbedding) {
        weight.is_table = true;
      } else {
        weight.needs_rows = true;
      }
    }
    if (graph::is_recurrence(node.op)) {
      for (const graph::ValueId id : graph::sequence_states(node)) {
        const auto found = state_index_.find(graph.value(id).name);
        if (found != state_index_.end()) states_[found->second].is_carried = true;
      }
    }
    if (node.op == graph::Op::kAttention) {
      LOCKSTEP_TRY_VOID(add_role(graph.value(node.operands[1]).name, CacheRole::kKeys));
      if (node.has("value_columns")) continue;  // values are columns of the keys
      LOCKSTEP_TRY_VOID(add_role(graph.value(node.operands[2]).name, CacheRole::kValues));
    }
  }
  return ok();
}

Result<void> Store::add_appends(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes) {
    if (node.op == graph::Op::kKvAppend) LOCKSTEP_TRY_VOID(add_append(graph.value(node.operands[1]).name, node));
  }
  return ok();
}

Result<void> Store::add_append(const std::string& name, const graph::Node& append) {
  const auto found = state_index_.find(name);
  if (found == state_index_.end() || !states_[found->second].role) {
    LOCKSTEP_TRY_VOID(add_role(name, CacheRole::kValues));  // no graph attends to it: stored as values
  }
  const Ring ring{append.has("window"), append.integer_or("pinned", 0)};
  std::optional<Ring>& known = states_[state_index_.find(name)->second].ring;
  if (!known) known = ring;
  if (*known == ring) return ok();
  const auto to_words = [](const Ring& r) {
    return r.is_ring ? fmt::format("a ring behind {} pinned rows", r.pinned) : std::string("one row per position");
  };
  return invalid(fmt::format("cannot lay out cache {}: found it appended to as {}, expected {} as before", name,
                             to_words(ring), to_words(*known)));
}

Result<void> Store::map_weights() {
  int64_t bytes = 0;
  const auto place = [&bytes](int64_t size) {
    const int64_t offset = bytes;
    bytes += round_up(size, 64);
    return offset;
  };
  for (auto& [name, weight] : weights_) {
    for (Form& form : weight.panels) form.offset = place(form.packing.bytes());
    if (weight.format && weight.coded.empty()) weight.coded.push_back({table_packing(weight.type, *weight.format)});
    for (CodedPanels& form : weight.coded) form.offset = place(form.packing.bytes());
    // A table can be read from panels. Unused weights are stored unpacked.
    const bool is_only_table = weight.panels.empty() && !weight.format;
    if (weight.needs_rows || is_only_table) weight.rows_offset = place(weight.type.bytes());
  }
  unset_weights_ = static_cast<int64_t>(weights_.size());
  LOCKSTEP_TRY(weight_memory_, Mapping::create(bytes, Pages::kHuge, "the weights"));
  return ok();
}

Result<void> Store::map_states() {
  int64_t dense = 0;
  for (State& state : states_) {
    if (state.role) continue;
    state.offset = dense;
    dense += round_up(state.type.bytes(), 64);
  }
  dense += kStrip * static_cast<int64_t>(sizeof(float));  // the last row of a recurrence is read in whole strips
  LOCKSTEP_TRY(dense_memory_, Mapping::create(dense, Pages::kOnDemand, "the states"));
  return map_caches();
}

Result<void> Store::map_caches() {
  LOCKSTEP_TRY(cache_memory_, Mapping::create(lay_out_caches(), Pages::kOnDemand, "the KV caches"));
  int64_t ring_rows = 0;
  for (const State& state : states_) {
    if (state.cache.is_ring) ring_rows += state.cache.slots * state.cache.capacity;
  }
  LOCKSTEP_TRY(written_memory_,
               Mapping::create(ring_rows * static_cast<int64_t>(sizeof(int32_t)), Pages::kOnDemand, "the KV rings"));
  auto* written = reinterpret_cast<int32_t*>(written_memory_.data());
  for (State& state : states_) {
    if (!state.role) continue;
    state.cache.base = cache_memory_.data() + state.offset;
    if (!state.cache.is_ring) continue;
    state.cache.written = written;
    written += state.cache.slots * state.cache.capacity;
  }
  return ok();
}

CacheLayout Store::layout_of(const State& state) const {
  const Shape& shape = state.type.shape;
  const Ring ring = state.ring.value_or(Ring{});
  return {.role = *state.role,
          .dtype = state.type.dtype,
          .pairs = kernels_.bf16_pairs && state.type.dtype == DType::kBFloat16,
          .slots = shape[0],
          .heads = shape[1],
          .capacity = shape[2],
          .head_dim = row_values(state.type.dtype, shape[3]),
          .is_ring = ring.is_ring,
          .pinned = ring.pinned};
}

int64_t Store::lay_out_caches() {
  struct Region {
    int64_t tile_bytes = 0;  // of all its caches
    int64_t slots = 0;
    int64_t offset = 0;
  };
  std::map<int64_t, Region> regions;  // by the number of tiles per slot
  for (State& state : states_) {
    if (!state.role) continue;
    state.cache = layout_of(state);
    Region& region = regions[state.cache.tiles()];
    state.offset = region.tile_bytes;
    region.tile_bytes += state.cache.heads * state.cache.tile_bytes();
    region.slots = std::max(region.slots, state.cache.slots);
  }
  int64_t bytes = 0;
  for (auto& [tiles, region] : regions) {
    region.tile_bytes = round_up(region.tile_bytes, 4096);
    region.offset = bytes;
    bytes += region.slots * tiles * region.tile_bytes;
  }
  for (State& state : states_) {
    if (!state.role) continue;
    const Region& region = regions[state.cache.tiles()];
    state.offset += region.offset;
    state.cache.tile_stride = region.tile_bytes;
    state.cache.slot_stride = state.cache.tiles() * region.tile_bytes;
  }
  return bytes;
}

std::optional<device::StateId> Store::find_state(std::string_view name) const {
  const auto found = state_index_.find(name);
  if (found == state_index_.end()) return std::nullopt;
  return device::StateId(found->second);
}

const Store::State& Store::state(device::StateId id) const {
  LOCKSTEP_CHECK(id.value >= 0 && static_cast<size_t>(id.value) < states_.size(), id.value, states_.size());
  return states_[id.value];
}

Result<void> Store::check_range(const State& state, int64_t offset, size_t bytes) const {
  if (state.belongs_to_slots()) {
    return invalid(fmt::format("cannot access state {}: it is a cache; use read_cache", state.name));
  }
  const auto size = static_cast<int64_t>(bytes);
  if (offset >= 0 && size <= state.type.bytes() && offset <= state.type.bytes() - size) return ok();
  return invalid(fmt::format("cannot access state {}: found bytes {} to {}, expected a range inside its {} bytes",
                             state.name, offset, offset + size, state.type.bytes()));
}

Result<void> Store::write_state(device::StateId id, int64_t offset, std::span<const std::byte> bytes) {
  LOCKSTEP_TRY_VOID(check_range(state(id), offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(dense_memory_.data() + state(id).offset + offset, bytes.data(), bytes.size());
  return ok();
}

Result<void> Store::read_state(device::StateId id, int64_t offset, std::span<std::byte> bytes) const {
  LOCKSTEP_TRY_VOID(check_range(state(id), offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(bytes.data(), dense_memory_.data() + state(id).offset + offset, bytes.size());
  return ok();
}

void Store::release_caches() {
  cache_memory_.release();
  written_memory_.release();
}

const void* Store::state_address(device::StateId id) const {
  return state(id).role ? state(id).cache.base : dense_memory_.data() + state(id).offset;
}

device::MemoryReport Store::memory() const {
  return {.weights = Bytes(weight_memory_.size()),
          .states_reserved = Bytes(dense_memory_.size() + cache_memory_.size() + written_memory_.size()),
          .states_resident = Bytes(dense_memory_.resident() + cache_memory_.resident() + written_memory_.resident()),
          .workspace = Bytes(workspace_)};
}

std::byte* Store::dense_state(std::string_view name) const {
  const auto found = state_index_.find(name);
  if (found == state_index_.end() || states_[found->second].role) return nullptr;
  return dense_memory_.data() + states_[found->second].offset;
}

const CacheLayout* Store::cache(std::string_view name) const {
  const auto found = state_index_.find(name);
  if (found == state_index_.end() || !states_[found->second].role) return nullptr;
  return &states_[found->second].cache;
}

Result<void> Store::require_weights() const {
  if (unset_weights_ == 0) return ok();
  const auto missing = std::find_if(weights_.begin(), weights_.end(), [](const auto& w) { return !w.second.is_set; });
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[runtime/backends/cpu] cannot run: weight {} was never set; load every weight before the "
                           "first step",
                           missing->first)};
}

}  // namespace lockstep::cpu
