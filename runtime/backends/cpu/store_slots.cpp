// Copies of KV cache slots, within a store and between two ranks' stores.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/backends/cpu/store.h"

namespace lockstep::cpu {
namespace {

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/cpu] " + std::move(message)};
}

}  // namespace

Result<void> Store::copy_slot(int64_t src, int64_t dst, int64_t tokens) {
  for (const State& state : states_) {
    if (!state.role || src == dst) continue;
    if (src < 0 || dst < 0 || src >= state.cache.slots || dst >= state.cache.slots || tokens < 0) {
      return invalid(fmt::format("cannot copy slot {} to {} of {}: expected slots 0 to {}", src, dst, state.name,
                                 state.cache.slots - 1));
    }
    state.cache.copy_slot(src, dst, tokens);
  }
  return ok();
}

int64_t Store::slot_bytes(int64_t tokens) const {
  int64_t all = 0;
  for (const State& state : states_) {
    if (state.role) state.cache.for_each_stretch(0, tokens, [&](std::byte*, int64_t bytes) { all += bytes; });
  }
  return all;
}

Result<void> Store::check_carried(int64_t slot, int64_t tokens, size_t bytes) const {
  const bool has_slot = std::ranges::all_of(
      states_, [slot](const State& state) { return !state.role || (slot >= 0 && slot < state.cache.slots); });
  if (has_slot && tokens >= 0 && static_cast<int64_t>(bytes) == slot_bytes(tokens)) return ok();
  return invalid(fmt::format("cannot carry slot {}: found {} bytes for {} tokens, expected {}", slot, bytes, tokens,
                             slot_bytes(std::max<int64_t>(tokens, 0))));
}

Result<void> Store::take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const {
  LOCKSTEP_TRY_VOID(check_carried(slot, tokens, dst.size()));
  std::byte* to = dst.data();
  for (const State& state : states_) {
    if (!state.role) continue;
    state.cache.for_each_stretch(slot, tokens, [&](const std::byte* memory, int64_t bytes) {
      std::memcpy(to, memory, static_cast<size_t>(bytes));
      to += bytes;
    });
  }
  return ok();
}

Result<void> Store::put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) {
  LOCKSTEP_TRY_VOID(check_carried(slot, tokens, src.size()));
  const std::byte* from = src.data();
  for (const State& state : states_) {
    if (!state.role) continue;
    state.cache.for_each_stretch(slot, tokens, [&](std::byte* memory, int64_t bytes) {
      std::memcpy(memory, from, static_cast<size_t>(bytes));
      from += bytes;
    });
  }
  return ok();
}

}  // namespace lockstep::cpu
