// Memory shared by all ranks of a host, and its layout.
//
//   part of rank 0                                        part of rank 1
//   ┌─────────┬───────────────────┬───────────────────┐   ┌─────────┬─── …
//   │ line    │ buffer of even    │ buffer of odd     │   │ line    │
//   │ (flags) │ rounds            │ rounds            │   │         │
//   └─────────┴───────────────────┴───────────────────┘   └─────────┴─── …
//
// A rank writes only into its own part (except the count of sleepers), so every cache line has one writer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/core/result.h"

namespace lockstep::transport::region {

constexpr size_t kPageBytes = 4096;
constexpr size_t kSmallestMessage = 4096;

/// A rank's flag: the round that it has entered and its operation, in one word, so that one store publishes both.
struct Arrival {
  uint32_t round = 0;      // rounds entered, modulo 2^32
  uint32_t operation = 0;  // a digest of the round's collective, to detect ranks that call different ones

  static Arrival unpack(uint64_t word) { return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)}; }
  uint64_t pack() const { return static_cast<uint64_t>(operation) << 32 | round; }
  /// Whether `wanted` has been entered; counts wrap around.
  bool has_entered(uint32_t wanted) const { return static_cast<int32_t>(round - wanted) >= 0; }
};

/// A rank's line for the others. All zero before the first round, as in new memory.
struct alignas(128) RankLine {                       // two cache lines: cores fetch neighbours too
  std::atomic<uint64_t> arrival = 0;                 // an `Arrival`; others sleep on its round
  std::atomic<uint32_t> sleepers = 0;                // ranks that sleep on it
  alignas(128) std::atomic<uint64_t> operation = 0;  // the full collective; read only to explain a difference
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "flags are shared between processes");

/// The layout of a region; the same on every rank.
struct Layout {
  int ranks = 1;
  size_t message_bytes = 0;  // a multiple of the page size

  /// `message_bytes` rounded up to whole pages.
  static Layout of(int ranks, size_t message_bytes);

  size_t part_bytes() const { return kPageBytes + 2 * message_bytes; }
  size_t bytes() const { return part_bytes() * static_cast<size_t>(ranks); }
};

/// Mapped memory, zero at first; unmapped at the end.
class Memory {
 public:
  /// Private memory of this process, for ranks that are threads.
  static Result<Memory> anonymous(size_t bytes);
  /// A shared mapping of an open file of at least `bytes`; the descriptor may be closed afterwards.
  static Result<Memory> of_file(int descriptor, size_t bytes);

  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Memory(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_;
  size_t bytes_;
};

/// One rank's view of a region. Borrows the memory.
class View {
 public:
  View(std::byte* base, const Layout& layout) : base_(base), layout_(layout) {}

  const Layout& layout() const { return layout_; }
  RankLine& line(int rank) const { return *reinterpret_cast<RankLine*>(part(rank)); }
  std::byte* buffer(int rank, uint32_t round) const {
    return part(rank) + kPageBytes + (round % 2) * layout_.message_bytes;
  }

 private:
  std::byte* part(int rank) const { return base_ + layout_.part_bytes() * static_cast<size_t>(rank); }

  std::byte* base_;
  Layout layout_;
};

}  // namespace lockstep::transport::region
