// What slots hold (keys and values, and what recurrent layers carry on): read, and copied within a store and between
// two ranks' stores.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cpu/store.h"

namespace lockstep::cpu {
namespace {

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/cpu] " + std::move(message)};
}

}  // namespace

std::span<std::byte> Store::carried(const State& state, int64_t slot) const {
  const int64_t bytes = state.type.bytes() / std::max<int64_t>(state.type.shape[0], 1);
  return {dense_memory_.data() + state.offset + slot * bytes, static_cast<size_t>(bytes)};
}

Result<void> Store::copy_slot(int64_t src, int64_t dst, int64_t tokens) {
  for (const State& state : states_) {
    if (!state.belongs_to_slots() || src == dst) continue;
    const int64_t slots = state.type.shape[0];
    if (src < 0 || dst < 0 || src >= slots || dst >= slots || tokens < 0) {
      return invalid(
          fmt::format("cannot copy slot {} to {} of {}: expected slots 0 to {}", src, dst, state.name, slots - 1));
    }
    if (state.role) {
      state.cache.copy_slot(src, dst, tokens);
    } else {
      std::ranges::copy(carried(state, src), carried(state, dst).begin());
    }
  }
  return ok();
}

template <typename Visit>
void Store::for_each_stretch(int64_t slot, int64_t tokens, Visit visit) const {
  for (const State& state : states_) {
    if (state.role) state.cache.for_each_stretch(slot, tokens, visit);
    if (state.is_carried) visit(carried(state, slot).data(), std::ssize(carried(state, slot)));
  }
}

int64_t Store::slot_bytes(int64_t tokens) const {
  int64_t all = 0;
  for_each_stretch(0, tokens, [&](std::byte*, int64_t bytes) { all += bytes; });
  return all;
}

Result<void> Store::check_carried(int64_t slot, int64_t tokens, size_t bytes) const {
  const bool has_slot = std::ranges::all_of(states_, [slot](const State& state) {
    return !state.belongs_to_slots() || (slot >= 0 && slot < state.type.shape[0]);
  });
  if (has_slot && tokens >= 0 && static_cast<int64_t>(bytes) == slot_bytes(tokens)) return ok();
  return invalid(fmt::format("cannot carry slot {}: found {} bytes for {} tokens, expected {}", slot, bytes, tokens,
                             slot_bytes(std::max<int64_t>(tokens, 0))));
}

Result<void> Store::take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const {
  LOCKSTEP_TRY_VOID(check_carried(slot, tokens, dst.size()));
  std::byte* to = dst.data();
  for_each_stretch(slot, tokens, [&](const std::byte* memory, int64_t bytes) { to = std::copy_n(memory, bytes, to); });
  return ok();
}

Result<void> Store::put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) {
  LOCKSTEP_TRY_VOID(check_carried(slot, tokens, src.size()));
  const std::byte* from = src.data();
  for_each_stretch(slot, tokens, [&](std::byte* memory, int64_t bytes) {
    std::copy_n(from, bytes, memory);
    from += bytes;
  });
  return ok();
}

Result<std::vector<std::byte>> Store::read_cache(device::StateId id) const {
  if (state(id).is_carried) {
    const std::byte* const from = dense_memory_.data() + state(id).offset;
    return std::vector<std::byte>(from, from + state(id).type.bytes());
  }
  if (!state(id).role) {
    return invalid(fmt::format("cannot read state {}: it is not a KV cache; use read_state", state(id).name));
  }
  const CacheLayout& cache = state(id).cache;
  std::vector<std::byte> contents(static_cast<size_t>(state(id).type.bytes()));
  std::byte* dst = contents.data();
  for (int64_t slot = 0; slot < cache.slots; ++slot) {
    for (int64_t head = 0; head < cache.heads; ++head) {
      for (int64_t row = 0; row < cache.capacity; ++row) {
        cache.read_row(slot, row, head, dst);
        dst += cache.row_bytes();
      }
    }
  }
  return contents;
}

}  // namespace lockstep::cpu
