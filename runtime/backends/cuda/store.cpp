#include "runtime/backends/cuda/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/backends/cuda/weight_loading.h"

namespace lockstep::cuda {
namespace {

constexpr int64_t kStagingBytes = int64_t{4} << 20;

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/cuda] " + std::move(message)};
}

/// The matrix `bytes` in the form of `packing`.
std::vector<std::byte> packed(const Packing& packing, const TensorType& type, std::span<const std::byte> bytes) {
  if (const auto* codes = std::get_if<CodedPacking>(&packing)) return pack_quantised(*codes, type.dtype, bytes);
  const auto& stack = std::get<StackedPacking>(packing);
  std::vector<std::byte> all(static_cast<size_t>(stack.bytes()));
  const auto part = static_cast<size_t>(stack.matrix.bytes());
  const size_t part_of_source = stack.parts > 0 ? bytes.size() / static_cast<size_t>(stack.parts) : 0;
  for (size_t i = 0; i < static_cast<size_t>(stack.parts); ++i) {
    stack.matrix.pack(bytes.subspan(i * part_of_source, part_of_source), std::span(all).subspan(i * part, part));
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::create(std::span<const device::StepGraph> steps, const RankDevice& device) {
  LOCKSTEP_TRY(StoreLayout layout, StoreLayout::of(steps, {.keeps_rows_of_products = device.options.uses_blas}));
  std::unique_ptr<Store> store(new Store(std::move(layout), device));
  LOCKSTEP_TRY_VOID(store->reserve());
  return store;
}

Result<void> Store::reserve() {
  LOCKSTEP_TRY_VOID(device_.context->make_current());
  LOCKSTEP_TRY(weight_memory_, cu::DeviceMemory::create(*device_.context, Bytes(layout_.weight_bytes), "the weights"));
  LOCKSTEP_TRY(cu::PagePool pool, cu::PagePool::create(*device_.context, layout_.cache_bytes > 0 ? 1 : 0));
  pool_ = std::make_unique<cu::PagePool>(std::move(pool));
  LOCKSTEP_TRY(cu::PagedMemory memory, cu::PagedMemory::reserve(*pool_, Bytes(layout_.cache_bytes)));
  cache_memory_ = std::make_unique<cu::PagedMemory>(std::move(memory));
  LOCKSTEP_TRY(staging_, cu::PinnedMemory::create(*device_.context, Bytes(kStagingBytes), "copies"));
  dense_memory_.resize(static_cast<size_t>(layout_.dense_bytes));
  for (const StateLayout& state : layout_.states) {
    const bool is_ring = state.cache && state.cache->held.is_ring;
    written_.emplace_back(is_ring ? static_cast<size_t>(state.cache->held.slots * state.cache->held.capacity) : 0);
  }
  is_set_.resize(layout_.weights.size());
  return ok();
}

Result<void> Store::upload(cu::DeviceAddress dst, std::span<const std::byte> bytes) const {
  for (size_t at = 0; at < bytes.size(); at += kStagingBytes) {
    const std::span<const std::byte> part = bytes.subspan(at, std::min(bytes.size() - at, size_t{kStagingBytes}));
    std::memcpy(staging_.host().data(), part.data(), part.size());
    LOCKSTEP_TRY_VOID(
        device_.stream->copy_to_device(dst + static_cast<int64_t>(at), staging_.host().first(part.size())));
    LOCKSTEP_TRY_VOID(device_.stream->wait(device_.limit));
  }
  return ok();
}

Result<void> Store::download(std::span<std::byte> dst, cu::DeviceAddress src) const {
  for (size_t at = 0; at < dst.size(); at += kStagingBytes) {
    const std::span<std::byte> part = dst.subspan(at, std::min(dst.size() - at, size_t{kStagingBytes}));
    LOCKSTEP_TRY_VOID(device_.stream->copy_to_host(staging_.host().first(part.size()), src + static_cast<int64_t>(at)));
    LOCKSTEP_TRY_VOID(device_.stream->wait(device_.limit));
    std::memcpy(part.data(), staging_.host().data(), part.size());
  }
  return ok();
}

Result<Store::WeightEntry> Store::find_weight(std::string_view name, int64_t bytes) const {
  const auto found = layout_.weights.find(name);
  if (found == layout_.weights.end()) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[runtime/backends/cuda] cannot set weight {}: no graph of this store has it", name)};
  }
  const WeightLayout& weight = found->second;
  if (bytes != weight.type.bytes()) {
    return invalid(fmt::format("cannot set weight {}: found {} bytes, expected {} for {}", name, bytes,
                               weight.type.bytes(), to_string(weight.type)));
  }
  return found;
}

void Store::mark_set(WeightEntry weight) {
  is_set_[static_cast<size_t>(std::distance(layout_.weights.begin(), weight))] = true;
}

Result<void> Store::set_weight(std::string_view name, std::span<const std::byte> bytes) {
  LOCKSTEP_TRY(const WeightEntry found, find_weight(name, std::ssize(bytes)));
  const WeightLayout& weight = found->second;
  LOCKSTEP_TRY_VOID(device_.context->make_current());
  for (const WeightForm& form : weight.forms) {
    const bool is_plain = std::holds_alternative<std::monostate>(form.packing);
    const std::vector<std::byte> other = is_plain ? std::vector<std::byte>() : packed(form.packing, weight.type, bytes);
    LOCKSTEP_TRY_VOID(upload(weights() + form.offset, is_plain ? bytes : other));
  }
  mark_set(found);
  return ok();
}

Result<void> Store::load(const graph::Graph& graph, const device::WeightReader& reader) {
  std::vector<WeightPlace> places;
  std::vector<WeightEntry> entries;
  for (const graph::Value* value : device::weights_in_file_order(graph, reader)) {
    LOCKSTEP_TRY(entries.emplace_back(), find_weight(value->name, value->type.bytes()));
    places.push_back({value, &entries.back()->second});
  }
  LOCKSTEP_TRY_VOID(load_weights(places, reader, device_, weights(), device_.host_threads));
  for (const WeightEntry entry : entries) mark_set(entry);
  return ok();
}

Result<void> Store::require_weights() const {
  const auto missing = std::ranges::find(is_set_, false);
  if (missing == is_set_.end()) return ok();
  const auto weight = std::next(layout_.weights.begin(), missing - is_set_.begin());
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[runtime/backends/cuda] cannot run: weight {} was never set; load every weight before the "
                           "first step",
                           weight->first)};
}

std::optional<device::StateId> Store::find_state(std::string_view name) const {
  const auto found = layout_.state_index.find(name);
  if (found == layout_.state_index.end()) return std::nullopt;
  return device::StateId(static_cast<int32_t>(found->second));
}

const StateLayout& Store::state(device::StateId id) const {
  LOCKSTEP_CHECK(id.value >= 0 && static_cast<size_t>(id.value) < layout_.states.size(), id.value,
                 layout_.states.size());
  return layout_.states[static_cast<size_t>(id.value)];
}

Result<void> Store::check_range(const StateLayout& state, int64_t offset, size_t bytes) const {
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
  if (!bytes.empty()) std::memcpy(dense_state(state(id)) + offset, bytes.data(), bytes.size());
  return ok();
}

Result<void> Store::read_state(device::StateId id, int64_t offset, std::span<std::byte> bytes) const {
  LOCKSTEP_TRY_VOID(check_range(state(id), offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(bytes.data(), dense_memory_.data() + state(id).offset + offset, bytes.size());
  return ok();
}

Result<void> Store::commit(int64_t begin, int64_t bytes) {
  LOCKSTEP_TRY([[maybe_unused]] const int64_t fresh, cache_memory_->commit(begin, bytes, *device_.stream));
  return ok();
}

std::span<int32_t> Store::written(const StateLayout& cache, int64_t slot) const {
  const int64_t capacity = cache.cache->held.capacity;
  std::vector<int32_t>& all = written_[static_cast<size_t>(&cache - layout_.states.data())];
  return std::span(all).subspan(static_cast<size_t>(slot * capacity), static_cast<size_t>(capacity));
}

Result<void> Store::prepare_rows(const StateLayout& state, std::span<const int32_t> slots,
                                 std::span<const int32_t> positions) {
  if (state.carried) return commit_carried(state, slots);
  const CacheLayout& layout = *state.cache;
  int64_t last = -1;  // neighbouring rows are mostly of one tile
  for (size_t row = 0; row < slots.size(); ++row) {
    if (slots[row] < 0) continue;
    const int64_t tile = layout.tile(slots[row], layout.place_of(positions[row] / kTileTokens));
    if (tile != last) LOCKSTEP_TRY_VOID(commit(tile, layout.tile_bytes()));
    last = tile;
    if (!layout.held.is_ring) continue;
    written(state, slots[row])[static_cast<size_t>(layout.row_of(positions[row]))] = positions[row] + 1;
  }
  return ok();
}

Result<void> Store::commit_carried(const StateLayout& state, std::span<const int32_t> slots) {
  int32_t last = -1;
  for (const int32_t slot : slots) {
    if (slot >= 0 && slot != last) LOCKSTEP_TRY_VOID(commit(state.slot_offset(slot), state.slot_bytes()));
    last = slot;
  }
  return ok();
}

Result<void> Store::copy_slot(int64_t src, int64_t dst, int64_t tokens) {
  LOCKSTEP_TRY_VOID(device_.context->make_current());
  for (const StateLayout& state : layout_.states) {
    if (!state.belongs_to_slots() || src == dst) continue;
    const int64_t slots = state.type.shape[0];
    if (src < 0 || dst < 0 || src >= slots || dst >= slots || tokens < 0) {
      return invalid(
          fmt::format("cannot copy slot {} to {} of {}: expected slots 0 to {}", src, dst, state.name, slots - 1));
    }
    if (state.carried) {
      const std::array<int32_t, 2> both{static_cast<int32_t>(src), static_cast<int32_t>(dst)};
      LOCKSTEP_TRY_VOID(commit_carried(state, both));
      LOCKSTEP_TRY_VOID(device_.stream->copy(caches() + state.slot_offset(dst), caches() + state.slot_offset(src),
                                             state.slot_bytes()));
      continue;
    }
    const CacheLayout& cache = *state.cache;
    for (int64_t place = 0; place < cache.used_tiles(tokens); ++place) {
      const int64_t from = cache.tile(src, place), to = cache.tile(dst, place);
      LOCKSTEP_TRY_VOID(commit(from, cache.tile_bytes()));
      LOCKSTEP_TRY_VOID(commit(to, cache.tile_bytes()));
      LOCKSTEP_TRY_VOID(device_.stream->copy(caches() + to, caches() + from, cache.tile_bytes()));
    }
    if (cache.held.is_ring) std::ranges::copy(written(state, src), written(state, dst).begin());
  }
  return ok();
}

void Store::release_caches() {
  (void)device_.stream->wait(device_.limit);  // an error shows in the next step
  (void)cache_memory_->release();
  for (std::vector<int32_t>& rows : written_) std::ranges::fill(rows, 0);
}

Result<std::vector<std::byte>> Store::read_cache(device::StateId id) const {
  const StateLayout& source = state(id);
  if (source.carried) {
    std::vector<std::byte> contents(static_cast<size_t>(source.type.bytes()));
    LOCKSTEP_TRY_VOID(device_.context->make_current());
    for (int64_t slot = 0; slot < source.type.shape[0]; ++slot) {
      if (!cache_memory_->is_committed(source.slot_offset(slot), source.slot_bytes())) continue;
      const auto bytes = static_cast<size_t>(source.slot_bytes());
      LOCKSTEP_TRY_VOID(download(std::span(contents).subspan(static_cast<size_t>(slot) * bytes, bytes),
                                 caches() + source.slot_offset(slot)));
    }
    return contents;
  }
  if (!source.cache) return invalid(fmt::format("cannot read state {}: it is not a KV cache", source.name));
  const CacheLayout& cache = *source.cache;
  LOCKSTEP_TRY_VOID(device_.context->make_current());
  std::vector<std::byte> all(static_cast<size_t>(source.type.bytes()));
  std::vector<std::byte> tile(static_cast<size_t>(cache.tile_bytes()));
  const auto row_bytes = static_cast<size_t>(cache.row_bytes());
  for (int64_t slot = 0; slot < cache.held.slots; ++slot) {
    int64_t loaded = -1;
    for (int64_t row = 0; row < cache.held.capacity; ++row) {
      const int64_t position = cache.held.is_ring ? written(source, slot)[static_cast<size_t>(row)] - 1 : row;
      if (position < 0) continue;
      const int64_t at = cache.tile(slot, cache.place_of(position / kTileTokens));
      if (!cache_memory_->is_committed(at, cache.tile_bytes())) continue;
      if (at != loaded) LOCKSTEP_TRY_VOID(download(tile, caches() + at));
      loaded = at;
      for (int64_t head = 0; head < cache.heads; ++head) {
        const int64_t to = (slot * cache.heads + head) * cache.held.capacity + row;
        cache.copy_row(tile.data(), head, position % kTileTokens, all.data() + static_cast<size_t>(to) * row_bytes);
      }
    }
  }
  return all;
}

const void* Store::state_address(device::StateId id) const {
  const StateLayout& found = state(id);
  if (found.carried) return reinterpret_cast<const void*>((caches() + *found.carried).value);
  if (!found.cache) return dense_memory_.data() + found.offset;
  return reinterpret_cast<const void*>((caches() + found.cache->offset).value);
}

device::MemoryReport Store::memory() const {
  return {.weights = Bytes(layout_.weight_bytes),
          .states_reserved = Bytes(layout_.dense_bytes + layout_.cache_bytes),
          .states_resident = Bytes(layout_.dense_bytes) + cache_memory_->committed(),
          .workspace = Bytes(workspace_)};
}

int64_t Store::slot_bytes(int64_t tokens) const {
  int64_t all = 0;
  for (const StateLayout& state : layout_.states) {
    if (state.carried) all += state.slot_bytes();
    if (!state.cache) continue;
    all += state.cache->used_tiles(tokens) * state.cache->tile_bytes();
    if (state.cache->held.is_ring) all += state.cache->held.capacity * static_cast<int64_t>(sizeof(int32_t));
  }
  return all;
}

Result<void> Store::check_carried(int64_t slot, int64_t tokens, size_t bytes) const {
  const bool has_slot = std::ranges::all_of(layout_.states, [slot](const StateLayout& state) {
    return !state.belongs_to_slots() || (slot >= 0 && slot < state.type.shape[0]);
  });
  if (has_slot && tokens >= 0 && static_cast<int64_t>(bytes) == slot_bytes(tokens)) return ok();
  return invalid(fmt::format("cannot carry slot {}: found {} bytes for {} tokens, expected {}", slot, bytes, tokens,
                             slot_bytes(std::max<int64_t>(tokens, 0))));
}

Result<void> Store::take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const {
  LOCKSTEP_TRY_VOID(check_carried(slot, tokens, dst.size()));
  LOCKSTEP_TRY_VOID(device_.context->make_current());
  for (const StateLayout& state : layout_.states) {
    if (state.carried) {
      const auto whole = static_cast<size_t>(state.slot_bytes());
      if (cache_memory_->is_committed(state.slot_offset(slot), state.slot_bytes())) {
        LOCKSTEP_TRY_VOID(download(dst.first(whole), caches() + state.slot_offset(slot)));
      } else {
        std::ranges::fill(dst.first(whole), std::byte{0});
      }
      dst = dst.subspan(whole);
    }
    if (!state.cache) continue;
    const CacheLayout& cache = *state.cache;
    const auto bytes = static_cast<size_t>(cache.tile_bytes());
    for (int64_t place = 0; place < cache.used_tiles(tokens); ++place) {
      const int64_t at = cache.tile(slot, place);
      if (cache_memory_->is_committed(at, cache.tile_bytes())) {
        LOCKSTEP_TRY_VOID(download(dst.first(bytes), caches() + at));
      } else {
        std::ranges::fill(dst.first(bytes), std::byte{0});
      }
      dst = dst.subspan(bytes);
    }
    if (!cache.held.is_ring) continue;
    const auto rows = std::as_bytes(written(state, slot));
    std::ranges::copy(rows, dst.begin());
    dst = dst.subspan(rows.size());
  }
  return ok();
}

Result<void> Store::put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) {
  LOCKSTEP_TRY_VOID(check_carried(slot, tokens, src.size()));
  LOCKSTEP_TRY_VOID(device_.context->make_current());
  for (const StateLayout& state : layout_.states) {
    if (state.carried) {
      const auto whole = static_cast<size_t>(state.slot_bytes());
      LOCKSTEP_TRY_VOID(commit(state.slot_offset(slot), state.slot_bytes()));
      LOCKSTEP_TRY_VOID(upload(caches() + state.slot_offset(slot), src.first(whole)));
      src = src.subspan(whole);
    }
    if (!state.cache) continue;
    const CacheLayout& cache = *state.cache;
    const auto bytes = static_cast<size_t>(cache.tile_bytes());
    for (int64_t place = 0; place < cache.used_tiles(tokens); ++place) {
      const int64_t at = cache.tile(slot, place);
      LOCKSTEP_TRY_VOID(commit(at, cache.tile_bytes()));
      LOCKSTEP_TRY_VOID(upload(caches() + at, src.first(bytes)));
      src = src.subspan(bytes);
    }
    if (!cache.held.is_ring) continue;
    const auto rows = std::as_writable_bytes(written(state, slot));
    std::ranges::copy(src.first(rows.size()), rows.begin());
    src = src.subspan(rows.size());
  }
  return ok();
}

}  // namespace lockstep::cuda
