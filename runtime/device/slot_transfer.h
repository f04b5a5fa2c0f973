// What a store can beside its interface where the slots of a group are divided between ranks: hand a slot's keys and
// values to another rank's store, when a slot there becomes a copy of it. A store that is no SlotTransfer keeps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/core/result.h"

namespace lockstep::device {

class SlotTransfer {
 public:
  virtual ~SlotTransfer() = default;

  /// Bytes of the first `tokens` positions of a slot (of a ring: of what it still holds of them), all layers. Stores of
  /// one backend, machine kind and graph have equally many, in the same order.
  virtual int64_t slot_bytes(int64_t tokens) const = 0;

  /// Writes them to `dst`, which has `slot_bytes(tokens)`.
  virtual Result<void> take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const = 0;

  /// Fills a slot with what `take_slot` of another store gave.
  virtual Result<void> put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) = 0;
};

}  // namespace lockstep::device
