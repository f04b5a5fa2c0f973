#include "runtime/backends/neuron/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "runtime/core/check.h"

namespace lockstep::neuron {
namespace {

constexpr int64_t kMirrored = 64 << 10;    // size limit of states with a copy on the host
constexpr int64_t kCopyScratch = 1 << 20;  // bytes that copy_slot moves at once

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/neuron] " + std::move(message)};
}

/// The operands of `node` that are KV caches.
std::vector<graph::ValueId> cache_operands(const graph::Node& node) {
  if (node.op == graph::Op::kKvAppend) return {node.operands.at(1)};
  if (node.op == graph::Op::kAttention) return {node.operands.at(1), node.operands.at(2)};
  return {};
}

/// Whether rank `rank`'s tensor is a prefix of the parameter, so that host and device offsets are equal.
bool is_prefix(const Parameter& parameter, int rank) {
  const Shape& view = parameter.placement.views.at(static_cast<size_t>(rank));
  int64_t stride = 1;
  for (size_t axis = view.rank(); axis-- > 0; stride *= view[axis]) {
    if (view[axis] != 1 && parameter.placement.strides.at(axis) != stride) return false;
  }
  return true;
}

}  // namespace

std::span<const graph::Graph> group_of(const device::StepGraph& step) {
  return step.of_all_ranks.empty() ? std::span(&step.own, 1) : step.of_all_ranks;
}

Result<std::unique_ptr<Store>> Store::make(nrt::Runtime& runtime, std::span<const device::StepGraph> steps) {
  std::unique_ptr<Store> store(new Store(runtime));
  for (const device::StepGraph& step : steps) LOCKSTEP_TRY_VOID(store->lower_step(step));
  LOCKSTEP_TRY_VOID(store->check_budget());
  LOCKSTEP_TRY_VOID(store->allocate());
  return store;
}

Result<void> Store::lower_step(const device::StepGraph& step) {
  rank_ = step.own.rank;
  LOCKSTEP_TRY(LoweredStep lowered, lower(group_of(step)));
  LOCKSTEP_TRY_VOID(add_graph(step.own));
  LOCKSTEP_TRY_VOID(add_parameters(lowered.signature));
  lowered_.emplace_back(step.own, std::move(lowered));
  return ok();
}

Result<LoweredStep> Store::take_lowered(const device::StepGraph& step) {
  for (auto& [graph, lowered] : lowered_) {
    if (!lowered || graph != step.own) continue;
    LoweredStep taken = std::move(*lowered);
    lowered.reset();
    return taken;
  }
  return lower(group_of(step));
}

Result<void> Store::add_graph(const graph::Graph& graph) {
  for (const graph::Value& value : graph.values) {
    if (value.kind == graph::ValueKind::kWeight) LOCKSTEP_TRY_VOID(add_value(value, weights_, weight_index_));
    if (value.kind == graph::ValueKind::kState) LOCKSTEP_TRY_VOID(add_value(value, states_, state_index_));
  }
  for (const graph::Node& node : graph.nodes) {
    for (const graph::ValueId cache : cache_operands(node)) {
      if (Entry* found = find(Role::kState, graph.value(cache).name)) found->is_cache = true;
    }
  }
  return ok();
}

Result<void> Store::add_value(const graph::Value& value, std::vector<Entry>& entries, Index& index) {
  const auto [found, is_new] = index.try_emplace(value.name, entries.size());
  if (is_new) {
    entries.push_back({.name = value.name, .type = value.type});
    return ok();
  }
  const TensorType& known = entries[found->second].type;
  if (known == value.type) return ok();
  return invalid(fmt::format("two graphs disagree about {}: found {}, expected {} as in the first graph", value.name,
                             to_string(value.type), to_string(known)));
}

Result<void> Store::add_parameters(const ModuleSignature& signature) {
  for (const Parameter& parameter : signature.parameters) {
    if (parameter.int8) {  // not a tensor of the graph: computed when the weight is set
      const Entry* weight = find(Role::kWeight, parameter.host_name());
      LOCKSTEP_CHECK(weight != nullptr, parameter.host_name());
      graph::Value made;
      made.name = parameter.name;
      made.type = weight->type;
      LOCKSTEP_TRY_VOID(add_value(made, weights_, weight_index_));
    }
    Entry* entry = find(parameter.role, parameter.name);
    if (entry == nullptr) continue;  // belongs to the executable
    if (!entry->parameter) entry->parameter = parameter;
    if (entry->parameter->is_same_tensor(parameter)) continue;
    return invalid(fmt::format("two modules lay {} out differently: found {}, expected {} as in the first module",
                               parameter.name, to_string(parameter.type), to_string(entry->parameter->type)));
  }
  return ok();
}

Store::Entry* Store::find(Role role, std::string_view name) {
  if (role != Role::kWeight && role != Role::kState) return nullptr;
  const Index& index = role == Role::kWeight ? weight_index_ : state_index_;
  const auto found = index.find(name);
  if (found == index.end()) return nullptr;
  return &(role == Role::kWeight ? weights_ : states_)[found->second];
}

Result<void> Store::check_budget() const {
  const std::optional<nrt::CoreMemory> memory = runtime_.memory();
  if (!memory) return ok();
  const auto sum = [](const std::vector<Entry>& entries) {
    int64_t bytes = 0;
    for (const Entry& entry : entries) bytes += entry.parameter ? entry.parameter->type.bytes() : 0;
    return bytes;
  };
  const int64_t weights = sum(weights_), states = sum(states_);
  const auto left = static_cast<int64_t>(memory->limit - std::min(memory->limit, memory->used));
  if (weights + states <= left) return ok();
  return Error{ErrorKind::kResourceExhausted,
               fmt::format("[runtime/backends/neuron] cannot reserve the core's memory: found {} of weights and {} of "
                           "states, expected at most {} ({} of {} are in use); use more ranks, or lower --max-seq-len "
                           "or --batch-size",
                           to_string(Bytes(weights)), to_string(Bytes(states)), to_string(Bytes(left)),
                           to_string(Bytes(static_cast<int64_t>(memory->used))),
                           to_string(Bytes(static_cast<int64_t>(memory->limit))))};
}

Result<void> Store::allocate() {
  int64_t positions = 0;  // bytes of one position of all slots, in the largest cache
  for (std::vector<Entry>* entries : {&weights_, &states_}) {
    for (Entry& entry : *entries) {
      if (entry.parameter && entry.parameter->type.bytes() > 0) {
        LOCKSTEP_TRY(nrt::Tensor tensor, nrt::Tensor::allocate(runtime_, entry.name, entry.parameter->type.bytes()));
        entry.tensor.emplace(std::move(tensor));
      }
      if (entries == &weights_) continue;
      const bool on_host = !entry.tensor || (!entry.is_cache && entry.type.bytes() <= kMirrored);
      if (on_host) entry.host.resize(static_cast<size_t>(entry.type.bytes()));
      entry.host_is_fresh = on_host;  // zeros, as on the device
      if (entry.is_cache && entry.tensor) {
        positions = std::max(
            positions, entry.parameter->placement.strides.at(2) * static_cast<int64_t>(size_of(entry.type.dtype)));
      } else if (entry.tensor) {
        LOCKSTEP_CHECK(is_prefix(*entry.parameter, rank_), entry.name);
      }
    }
  }
  if (positions > 0) copy_scratch_.resize(static_cast<size_t>(std::max(positions, kCopyScratch)));
  return ok();
}

Result<void> Store::set_weight(std::string_view name, std::span<const std::byte> bytes) {
  Entry* weight = find(Role::kWeight, name);
  if (weight == nullptr) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[runtime/backends/neuron] cannot set weight {}: no graph of this store has it", name)};
  }
  if (std::ssize(bytes) != weight->type.bytes()) {
    return invalid(fmt::format("cannot set weight {}: found {} bytes, expected {} for {}", name, bytes.size(),
                               weight->type.bytes(), to_string(weight->type)));
  }
  LOCKSTEP_TRY_VOID(fill(*weight, bytes));
  for (Entry& other : weights_) {
    const bool is_made_of_it = other.parameter && other.parameter->int8 && other.parameter->host_name() == name;
    if (is_made_of_it) LOCKSTEP_TRY_VOID(fill(other, bytes));
  }
  return ok();
}

Result<void> Store::fill(Entry& weight, std::span<const std::byte> bytes) {
  if (weight.tensor && !weight.parameter->int8 && is_prefix(*weight.parameter, rank_)) {
    LOCKSTEP_TRY_VOID(weight.tensor->write(0, bytes));
  } else if (weight.tensor) {
    LOCKSTEP_TRY(const std::vector<std::byte> placed, to_device(*weight.parameter, rank_, bytes));
    LOCKSTEP_TRY_VOID(weight.tensor->write(0, placed));
  }
  weight.has_contents = true;
  return ok();
}

std::optional<device::StateId> Store::find_state(std::string_view name) const {
  const auto found = state_index_.find(name);
  if (found == state_index_.end()) return std::nullopt;
  return device::StateId(static_cast<int32_t>(found->second));
}

const Store::Entry& Store::entry(device::StateId state) const {
  LOCKSTEP_CHECK(state.value >= 0 && static_cast<size_t>(state.value) < states_.size(), state.value, states_.size());
  return states_[static_cast<size_t>(state.value)];
}

Result<void> Store::check_access(const Entry& state, int64_t offset, size_t bytes) const {
  if (state.is_cache) return invalid(fmt::format("cannot access state {}: it is a KV cache", state.name));
  const auto size = static_cast<int64_t>(bytes);
  if (offset >= 0 && size <= state.type.bytes() && offset <= state.type.bytes() - size) return ok();
  return invalid(fmt::format("cannot access state {}: found bytes {} to {}, expected a range inside its {} bytes",
                             state.name, offset, offset + size, state.type.bytes()));
}

/// The host reads several slots of a state between two steps, so a small state is fetched as a whole.
Result<void> Store::refresh(const Entry& state) const {
  if (state.host_is_fresh) return ok();
  LOCKSTEP_TRY_VOID(state.tensor->read(0, state.host));
  state.host_is_fresh = true;
  return ok();
}

Result<void> Store::write_state(device::StateId state, int64_t offset, std::span<const std::byte> bytes) {
  const Entry& target = entry(state);
  LOCKSTEP_TRY_VOID(check_access(target, offset, bytes.size()));
  if (bytes.empty()) return ok();
  const auto place = target.host.begin() + (target.host.empty() ? 0 : offset);
  if (target.host_is_fresh) {
    if (std::equal(bytes.begin(), bytes.end(), place)) return ok();  // unchanged: most steps stop no slot
    std::copy(bytes.begin(), bytes.end(), place);
  }
  if (!target.tensor) return ok();
  return states_[static_cast<size_t>(state.value)].tensor->write(offset, bytes);
}

Result<void> Store::read_state(device::StateId state, int64_t offset, std::span<std::byte> bytes) const {
  const Entry& source = entry(state);
  LOCKSTEP_TRY_VOID(check_access(source, offset, bytes.size()));
  if (bytes.empty()) return ok();
  if (source.host.empty()) return source.tensor->read(offset, bytes);
  LOCKSTEP_TRY_VOID(refresh(source));
  std::copy_n(source.host.begin() + offset, bytes.size(), bytes.begin());
  return ok();
}

void Store::forget_host_copy(device::StateId state) {
  const Entry& updated = entry(state);
  if (updated.tensor) updated.host_is_fresh = false;
}

Result<void> Store::copy_slot(int64_t src, int64_t dst, int64_t tokens) {
  for (Entry& state : states_) {
    if (!state.is_cache || src == dst) continue;
    const Shape& shape = state.type.shape;  // [slots, heads, capacity, head_dim]
    if (src < 0 || dst < 0 || src >= shape[0] || dst >= shape[0] || tokens < 0) {
      return invalid(
          fmt::format("cannot copy slot {} to {} of {}: expected slots 0 to {}", src, dst, state.name, shape[0] - 1));
    }
    if (!state.tensor) continue;
    const Range from = bytes_of(state, src), to = bytes_of(state, dst);
    LOCKSTEP_TRY_VOID(visit_positions(state, tokens, copy_scratch_, [&](std::span<std::byte> position) {
      std::memcpy(position.data() + to.begin, position.data() + from.begin, static_cast<size_t>(from.size()));
    }));
  }
  return ok();
}

int64_t Store::slot_bytes(int64_t tokens) const {
  int64_t all = 0;
  for (const Entry& cache : states_) {
    if (!cache.is_cache || !cache.tensor) continue;
    all += std::min(tokens, cache.type.shape[2]) * bytes_of(cache, 0).size();
  }
  return all;
}

/// One position of all slots is contiguous, so many positions are copied to the host and back at once.
template <typename CacheEntry, typename Change>
Result<void> Store::visit_positions(CacheEntry& cache, int64_t tokens, std::span<std::byte> scratch, Change change) {
  const int64_t position = cache.parameter->placement.strides[2] * static_cast<int64_t>(size_of(cache.type.dtype));
  const int64_t most = std::min(tokens, cache.type.shape[2]), at_once = std::ssize(scratch) / position;
  for (int64_t begin = 0; begin < most; begin += at_once) {
    const int64_t count = std::min(at_once, most - begin);
    const std::span<std::byte> rows = scratch.first(static_cast<size_t>(count * position));
    LOCKSTEP_TRY_VOID(cache.tensor->read(begin * position, rows));
    for (int64_t i = 0; i < count; ++i) {
      change(rows.subspan(static_cast<size_t>(i * position), static_cast<size_t>(position)));
    }
    if constexpr (!std::is_const_v<CacheEntry>) LOCKSTEP_TRY_VOID(cache.tensor->write(begin * position, rows));
  }
  return ok();
}

/// The byte range of `slot` within a position of `cache`.
Range Store::bytes_of(const Entry& cache, int64_t slot) {
  LOCKSTEP_CHECK(slot >= 0 && slot < cache.type.shape[0], slot, cache.type.shape[0]);
  const int64_t own = cache.parameter->placement.strides[0] * static_cast<int64_t>(size_of(cache.type.dtype));
  return {slot * own, (slot + 1) * own};
}

template <typename Entries, typename Change>
Result<void> Store::visit_slot(Entries& states, int64_t slot, int64_t tokens, std::span<std::byte> scratch,
                               Change change) {
  for (auto& cache : states) {
    if (!cache.is_cache || !cache.tensor) continue;
    const Range own = bytes_of(cache, slot);
    LOCKSTEP_TRY_VOID(visit_positions(cache, tokens, scratch, [&](std::span<std::byte> position) {
      change(position.subspan(static_cast<size_t>(own.begin), static_cast<size_t>(own.size())));
    }));
  }
  return ok();
}

Result<void> Store::take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const {
  LOCKSTEP_CHECK(std::ssize(dst) == slot_bytes(tokens), dst.size(), tokens);
  std::vector<std::byte> scratch(copy_scratch_.size());
  return visit_slot(states_, slot, tokens, scratch,
                    [to = dst.begin()](std::span<std::byte> own) mutable { to = std::ranges::copy(own, to).out; });
}

Result<void> Store::put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) {
  LOCKSTEP_CHECK(std::ssize(src) == slot_bytes(tokens), src.size(), tokens);
  return visit_slot(states_, slot, tokens, copy_scratch_, [src](std::span<std::byte> own) mutable {
    std::ranges::copy(src.first(own.size()), own.begin());
    src = src.subspan(own.size());
  });
}

Result<std::vector<std::byte>> Store::read_cache(device::StateId state) const {
  const Entry& source = entry(state);
  if (!source.is_cache) return invalid(fmt::format("cannot read state {}: it is not a KV cache", source.name));
  if (!source.tensor) return source.host;
  std::vector<std::byte> bytes(static_cast<size_t>(source.tensor->bytes()));
  LOCKSTEP_TRY_VOID(source.tensor->read(0, bytes));
  return to_host(*source.parameter, rank_, bytes);
}

const void* Store::state_address(device::StateId state) const {
  const Entry& found = entry(state);
  if (!found.tensor) return found.host.data();
  const void* address = found.tensor->address();
  return address != nullptr ? address : found.tensor->handle();  // a handle identifies a tensor without a host address
}

device::MemoryReport Store::memory() const {
  device::MemoryReport report;
  report.workspace = workspace_;
  for (const Entry& weight : weights_) report.weights += Bytes(weight.tensor ? weight.tensor->bytes() : 0);
  for (const Entry& state : states_) {
    report.states_reserved += Bytes(state.tensor ? state.tensor->bytes() : std::ssize(state.host));
  }
  report.states_resident = report.states_reserved;
  return report;
}

Result<const nrt::Tensor*> Store::bound(const Parameter& parameter) const {
  const bool is_weight = parameter.role == Role::kWeight;
  const Index& index = is_weight ? weight_index_ : state_index_;
  const auto found = index.find(parameter.name);
  const Entry* entry = found == index.end() ? nullptr : &(is_weight ? weights_ : states_)[found->second];
  if (entry != nullptr && entry->tensor && entry->parameter->is_same_tensor(parameter)) return &*entry->tensor;
  return invalid(
      fmt::format("cannot bind {} {}: the store was not made for it", to_string(parameter.role), parameter.name));
}

Result<void> Store::require_weights() {
  if (has_weights_) return ok();
  const auto missing = std::ranges::find(weights_, false, &Entry::has_contents);
  has_weights_ = missing == weights_.end();
  if (has_weights_) return ok();
  return Error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[runtime/backends/neuron] cannot run: weight {} was never set; load every weight before the "
                  "first step",
                  missing->name)};
}

}  // namespace lockstep::neuron
