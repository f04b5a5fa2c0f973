// Transfer of a slot's keys and values between the stores of two ranks.
//
// Implemented by stores for groups that divide the slots between ranks, when a slot becomes a copy of another rank's
// slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/core/result.h"

namespace lockstep::device {

class SlotTransfer {
 public:
  virtual ~SlotTransfer() = default;

  /// Bytes of the first `tokens` positions of a slot in all layers (of a ring: of the positions it still holds). The
  /// same number and order in all stores of one backend, machine kind and graph.
  virtual int64_t slot_bytes(int64_t tokens) const = 0;

  /// Writes the slot's bytes to `dst`, of size `slot_bytes(tokens)`.
  virtual Result<void> take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const = 0;

  /// Fills a slot with the bytes from `take_slot` of another store.
  virtual Result<void> put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) = 0;
};

}  // namespace lockstep::device
