#include "runtime/journal/frames.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/core/hash.h"

namespace lockstep::journal {
namespace {

static_assert(std::endian::native == std::endian::little, "journals are written in the order of bytes of the host");

constexpr std::array<char, kMagicBytes> kMagic = {'L', 'K', 'S', 'T', 'P', 'J', 'N', 'L'};
constexpr int64_t kAlignment = 8;
constexpr int64_t kScanBytes = 1 << 16;  // searched at a time

struct FrameHead {
  uint32_t length = 0;
  uint32_t check = 0;
  uint64_t checksum = 0;
};
static_assert(sizeof(FrameHead) == kFrameBytes);

Fingerprint begin_checksum(int64_t offset, uint32_t length) {
  return Fingerprint().add(static_cast<uint64_t>(offset)).add(uint64_t{length});
}

uint32_t check_of(int64_t offset, uint32_t length) {
  return static_cast<uint32_t>(begin_checksum(offset, length).value());
}

/// Whether a record may begin with `head` at `offset` of a medium of `size` bytes.
bool is_plausible(const FrameHead& head, int64_t offset, int64_t size) {
  return head.length % kAlignment == 0 && head.length > 0 && int64_t{head.length} <= kMostPayloadBytes &&
         int64_t{head.length} <= size - offset - kFrameBytes && head.check == check_of(offset, head.length);
}

template <typename Value>
std::span<std::byte> bytes_of(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

std::span<const std::byte> magic() { return std::as_bytes(std::span(kMagic)); }

std::vector<std::byte> frame(int64_t offset, std::span<const std::byte> payload) {
  LOCKSTEP_CHECK(offset % kAlignment == 0 && payload.size() % kAlignment == 0 && !payload.empty(), offset,
                 payload.size());
  LOCKSTEP_CHECK(std::ssize(payload) <= kMostPayloadBytes, payload.size());
  const auto length = static_cast<uint32_t>(payload.size());
  const FrameHead head{.length = length,
                       .check = check_of(offset, length),
                       .checksum = begin_checksum(offset, length).add_bytes(payload).value()};
  std::vector<std::byte> bytes(sizeof head + payload.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::ranges::copy(payload, bytes.begin() + sizeof head);
  return bytes;
}

Result<std::optional<std::vector<std::byte>>> read_record(const Medium& medium, int64_t offset) {
  using Payload = std::optional<std::vector<std::byte>>;
  FrameHead head;
  if (medium.size - offset < kFrameBytes) return Payload();
  LOCKSTEP_TRY_VOID(medium.read(offset, bytes_of(head)));
  if (!is_plausible(head, offset, medium.size)) return Payload();
  std::vector<std::byte> payload(head.length);
  LOCKSTEP_TRY_VOID(medium.read(offset + kFrameBytes, payload));
  if (begin_checksum(offset, head.length).add_bytes(payload).value() != head.checksum) return Payload();
  return Payload(std::move(payload));
}

Result<std::optional<int64_t>> find_record(const Medium& medium, int64_t begin) {
  std::vector<std::byte> block;
  for (int64_t at = begin; at + kFrameBytes <= medium.size; at += kScanBytes) {
    block.resize(static_cast<size_t>(std::min(kScanBytes + kFrameBytes, medium.size - at)));
    LOCKSTEP_TRY_VOID(medium.read(at, block));
    const int64_t heads = std::min(kScanBytes, std::ssize(block) - kFrameBytes + 1);
    for (int64_t i = 0; i < heads; i += kAlignment) {
      FrameHead head;
      std::memcpy(&head, block.data() + i, sizeof head);
      if (!is_plausible(head, at + i, medium.size)) continue;
      LOCKSTEP_TRY(const auto payload, read_record(medium, at + i));
      if (payload) return std::optional(at + i);
    }
  }
  return std::optional<int64_t>();
}

Error damaged(int64_t offset, int64_t next) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/journal] the journal is damaged at byte {}: found no whole record, with one after it "
                      "at byte {}; take the file from a backup, or begin a new journal in another folder",
                      offset, next)};
}

Result<Frames> walk_records(const Medium& medium,
                            const std::function<Result<void>(int64_t, std::span<const std::byte>)>& take) {
  Frames frames{.end = kMagicBytes};
  while (frames.end < medium.size) {
    LOCKSTEP_TRY(const auto payload, read_record(medium, frames.end));
    if (!payload) {
      LOCKSTEP_TRY(const std::optional<int64_t> next, find_record(medium, frames.end + kAlignment));
      if (next) return damaged(frames.end, *next);
      frames.dropped = medium.size - frames.end;
      return frames;
    }
    LOCKSTEP_TRY_VOID(take(frames.end, *payload));
    frames.end += kFrameBytes + std::ssize(*payload);
  }
  return frames;
}

}  // namespace lockstep::journal
