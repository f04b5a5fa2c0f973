// The framing of records in a journal file, with detection of torn ends and damage.
//
//   "LKSTPJNL" | length, check, checksum | payload | length, check, checksum | payload | …        all multiples of 8
//
//   length     u32   bytes of the payload
//   check      u32   of length and the record's own offset: a wrong length is not followed
//   checksum   u64   of offset, length and payload
//
// Every record is on disk before the next is written, so a crash can only damage the last one. An incomplete record
// without a complete one after it is a torn end and is dropped. An incomplete record followed by a complete one was
// damaged later and is an error.
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

/// The framed `payload` for the file at `offset`; its size is a multiple of 8, at most `kMostPayloadBytes`.
std::vector<std::byte> frame(int64_t offset, std::span<const std::byte> payload);

/// A source of record bytes.
struct Medium {
  int64_t size = 0;
  std::function<Result<void>(int64_t offset, std::span<std::byte> to)> read;  // inside `size`
};

/// The payload of the complete record at `offset`; empty when there is none. Fails as the medium does.
Result<std::optional<std::vector<std::byte>>> read_record(const Medium& medium, int64_t offset);

/// The offset of the first complete record from `begin` on, a multiple of 8; empty when there is none. Fails as the
/// medium does.
Result<std::optional<int64_t>> find_record(const Medium& medium, int64_t begin);

/// The error of bytes at `offset` that are no record, with a complete one at `next` after them.
Error damaged(int64_t offset, int64_t next);

/// The extent of the records in a medium, magic bytes included.
struct Frames {
  int64_t end = 0;      // of the last complete record: position of the next one
  int64_t dropped = 0;  // bytes after it: an incomplete record
};

/// Calls `take` with the offset and payload of each record in order; stops at its first error. Fails with
/// `kInvalidArgument` naming the offset when a damaged record is followed by a complete one.
Result<Frames> walk_records(const Medium& medium,
                            const std::function<Result<void>(int64_t, std::span<const std::byte>)>& take);

}  // namespace lockstep::journal
