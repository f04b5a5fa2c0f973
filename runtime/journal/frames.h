// How records lie in a journal's bytes, and how a torn end is told from damage.
//
//   "LKSTPJNL" | length, check, checksum | payload | length, check, checksum | payload | …        all multiples of 8
//
//   length     u32   bytes of the payload
//   check      u32   of length and the record's own offset: a length that is wrong is not followed
//   checksum   u64   of offset, length and payload
//
// Every record is on disk before the next is written, so a crash can harm the last one only. What is not whole and has
// no whole record after it is such an end, and is dropped; what has one after it was damaged later, and is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::journal {

inline constexpr int64_t kMagicBytes = 8;
inline constexpr int64_t kFrameBytes = 16;                      // before each payload
inline constexpr int64_t kMostPayloadBytes = int64_t{1} << 30;  // of one record

/// The first bytes of every journal.
std::span<const std::byte> magic();

/// `payload`, of a multiple of 8 bytes and at most `kMostPayloadBytes`, as it stands in the file at `offset`.
std::vector<std::byte> frame(int64_t offset, std::span<const std::byte> payload);

/// Bytes to read records from.
struct Medium {
  int64_t size = 0;
  std::function<Result<void>(int64_t offset, std::span<std::byte> to)> read;  // inside `size`
};

/// The payload of the whole record at `offset`; nothing when there is none. Fails as the medium does.
Result<std::optional<std::vector<std::byte>>> read_record(const Medium& medium, int64_t offset);

/// What a medium holds from the magic bytes on.
struct Frames {
  int64_t end = 0;      // of the last whole record: where the next one goes
  int64_t dropped = 0;  // bytes after it: a record that was not written whole
};

/// Calls `take` with the offset and payload of each record in order; its error ends the walk. Fails with
/// `kInvalidArgument` naming the offset when a record is damaged that has whole ones after it.
Result<Frames> walk_records(const Medium& medium,
                            const std::function<Result<void>(int64_t, std::span<const std::byte>)>& take);

}  // namespace lockstep::journal
