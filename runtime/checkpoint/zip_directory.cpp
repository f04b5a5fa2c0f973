#include "runtime/checkpoint/zip_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/checkpoint/json_document.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kEndRecord = 22, kLocator = 20, kEndRecord64 = 56, kCentralHeader = 46, kLocalHeader = 30;  // bytes
constexpr int64_t kLongestComment = 65535;
constexpr int64_t kLargestDirectory = int64_t{64} << 20;
constexpr uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEndMark64 = 0x06064b50;
constexpr uint32_t kCentralMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr uint16_t kZip64Field = 1, kEncrypted = 1;
constexpr uint64_t kIn64 = 0xffffffff;  // a 32-bit field with this value is stored in the zip64 record

/// Reads little-endian numbers at fixed offsets of a record of checked size.
template <typename T>
T at(std::span<const std::byte> record, size_t offset) {
  T value;
  std::memcpy(&value, record.subspan(offset, sizeof value).data(), sizeof value);
  return value;
}

struct Directory {
  uint64_t entries = 0, size = 0, offset = 0;
};

Error damaged_zip(const ByteSource& archive, std::string_view found_and_expected) {
  return damaged(archive.path.string(), found_and_expected);
}

Result<std::vector<std::byte>> read_bytes(const ByteSource& archive, int64_t offset, int64_t size) {
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  LOCKSTEP_TRY_VOID(archive.read(offset, bytes));
  return bytes;
}

/// The zip64 end record, if it exists. Its locator precedes the end record at `end`.
Result<std::optional<Directory>> find_directory64(const ByteSource& archive, int64_t end) {
  if (end < kLocator) return std::optional<Directory>();
  LOCKSTEP_TRY(const auto locator, read_bytes(archive, end - kLocator, kLocator));
  if (at<uint32_t>(locator, 0) != kLocatorMark) return std::optional<Directory>();
  const auto offset = at<uint64_t>(locator, 8);
  if (archive.size < kEndRecord64 || offset > static_cast<uint64_t>(archive.size - kEndRecord64)) {
    return damaged_zip(archive, fmt::format("found a zip64 record at byte {}, expected it inside", offset));
  }
  LOCKSTEP_TRY(const auto record, read_bytes(archive, static_cast<int64_t>(offset), kEndRecord64));
  if (at<uint32_t>(record, 0) != kEndMark64) return damaged_zip(archive, "found no zip64 record where one should be");
  return std::optional(Directory{at<uint64_t>(record, 32), at<uint64_t>(record, 40), at<uint64_t>(record, 48)});
}

Result<Directory> find_directory(const ByteSource& archive) {
  const int64_t tail = std::min(archive.size, kEndRecord + kLongestComment);
  LOCKSTEP_TRY(const auto bytes, read_bytes(archive, archive.size - tail, tail));
  for (int64_t begin = tail - kEndRecord; begin >= 0; --begin) {
    const auto record = std::span(bytes).subspan(static_cast<size_t>(begin));
    if (at<uint32_t>(record, 0) != kEndMark || at<uint16_t>(record, 20) != record.size() - kEndRecord) continue;
    LOCKSTEP_TRY(const auto directory64, find_directory64(archive, archive.size - tail + begin));
    if (directory64) return *directory64;
    if (at<uint16_t>(record, 4) != 0) {
      return Error{ErrorKind::kUnsupported,
                   fmt::format("[runtime/checkpoint] cannot read {}: found one of several volumes, expected a whole "
                               "archive; save it again with torch.save",
                               archive.path.string())};
    }
    return Directory{at<uint16_t>(record, 10), at<uint32_t>(record, 12), at<uint32_t>(record, 16)};
  }
  return damaged_zip(archive, "found no end of a zip directory, expected one at the end of the file");
}

/// Reads the values of a central header that exceed 32 bits; they are consecutive in the zip64 field.
Result<void> read_extra(const ByteSource& archive, std::span<const std::byte> extra, std::vector<uint64_t*> wanted) {
  wanted.erase(std::remove_if(wanted.begin(), wanted.end(), [](const uint64_t* value) { return *value != kIn64; }),
               wanted.end());
  while (!wanted.empty() && extra.size() >= 4) {
    const size_t size = at<uint16_t>(extra, 2);
    if (size > extra.size() - 4) break;
    if (at<uint16_t>(extra, 0) == kZip64Field && size >= 8 * wanted.size()) {
      for (size_t i = 0; i < wanted.size(); ++i) *wanted[i] = at<uint64_t>(extra, 4 + 8 * i);
      return ok();
    }
    extra = extra.subspan(4 + size);
  }
  if (wanted.empty()) return ok();
  return damaged_zip(archive, "found an entry without its zip64 sizes");
}

/// The location of an entry's bytes. They follow its local header, which alone determines the padding.
Result<ZipEntry> locate(const ByteSource& archive, std::string_view name, uint64_t header, uint64_t size) {
  const auto outside = [&] {
    return damaged_zip(archive, fmt::format("{}: found {} bytes at byte {}, expected them inside", name, size, header));
  };
  const auto end = static_cast<uint64_t>(archive.size);
  if (end < kLocalHeader || header > end - kLocalHeader) return outside();
  LOCKSTEP_TRY(const auto local, read_bytes(archive, static_cast<int64_t>(header), kLocalHeader));
  if (at<uint32_t>(local, 0) != kLocalMark) return outside();
  const uint64_t begin = header + kLocalHeader + at<uint16_t>(local, 26) + at<uint16_t>(local, 28);
  if (begin > end || size > end - begin) return outside();
  return ZipEntry{static_cast<int64_t>(begin), static_cast<int64_t>(size)};
}

Result<std::vector<std::byte>> read_directory(const ByteSource& archive, const Directory& directory) {
  if (directory.size > static_cast<uint64_t>(std::min(kLargestDirectory, archive.size)) ||
      directory.offset > static_cast<uint64_t>(archive.size) - directory.size) {
    return damaged_zip(archive, fmt::format("found a directory of {} bytes at byte {}, expected it inside",
                                            directory.size, directory.offset));
  }
  return read_bytes(archive, static_cast<int64_t>(directory.offset), static_cast<int64_t>(directory.size));
}

/// Reads the entry at the start of `rest` and advances to the next.
Result<std::pair<std::string, ZipEntry>> take_entry(const ByteSource& archive, std::span<const std::byte>& rest) {
  const bool whole = rest.size() >= kCentralHeader && at<uint32_t>(rest, 0) == kCentralMark;
  const size_t name_size = whole ? at<uint16_t>(rest, 28) : 0, extra_size = whole ? at<uint16_t>(rest, 30) : 0;
  const size_t all = kCentralHeader + name_size + extra_size + (whole ? at<uint16_t>(rest, 32) : 0);
  if (!whole || rest.size() < all) return damaged_zip(archive, "found fewer entries than its directory says");
  const std::string name(reinterpret_cast<const char*>(rest.data()) + kCentralHeader, name_size);
  const auto flags = at<uint16_t>(rest, 8), method = at<uint16_t>(rest, 10);
  if (method != 0 || (flags & kEncrypted) != 0) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/checkpoint] cannot read {}: {}: found it compressed or encrypted (method {}), "
                             "expected it stored; save it again with torch.save",
                             archive.path.string(), name, method)};
  }
  uint64_t size = at<uint32_t>(rest, 24), packed = at<uint32_t>(rest, 20), header = at<uint32_t>(rest, 42);
  const auto extra = rest.subspan(kCentralHeader + name_size, extra_size);
  LOCKSTEP_TRY_VOID(read_extra(archive, extra, {&size, &packed, &header}));
  LOCKSTEP_TRY(const ZipEntry entry, locate(archive, name, header, size));
  rest = rest.subspan(all);
  return std::pair(name, entry);
}

}  // namespace

Result<std::map<std::string, ZipEntry, std::less<>>> read_zip_directory(const ByteSource& archive) {
  if (archive.size < kEndRecord) {
    return damaged_zip(archive, fmt::format("found {} bytes, expected a zip", archive.size));
  }
  LOCKSTEP_TRY(const Directory directory, find_directory(archive));
  LOCKSTEP_TRY(const auto bytes, read_directory(archive, directory));
  std::map<std::string, ZipEntry, std::less<>> entries;
  std::span<const std::byte> rest(bytes);
  for (uint64_t i = 0; i < directory.entries; ++i) {
    LOCKSTEP_TRY(auto named, take_entry(archive, rest));
    if (!entries.insert(named).second) return damaged_zip(archive, fmt::format("found {} twice", named.first));
  }
  return entries;
}

}  // namespace lockstep::checkpoint
