#include "runtime/checkpoint/old_torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/stored_type.h"
#include "runtime/core/check.h"

namespace lockstep::checkpoint {
namespace {

/// Reads the pickles at the file's beginning. Their length is known only after parsing, so reads more until complete.
Result<OldTorchPickles> read_pickles(const ByteSource& file) {
  constexpr int64_t kFirstLook = int64_t{1} << 20;
  const int64_t most = std::min(file.size, kLargestPickle);
  for (int64_t look = std::min(kFirstLook, most);; look = std::min(4 * look, most)) {
    std::vector<std::byte> start(static_cast<size_t>(look));
    LOCKSTEP_TRY_VOID(file.read(0, start));
    auto pickles = unpickle_old_file(start, file.path.string());
    const bool may_be_cut = !pickles.has_value() && pickles.error().kind == ErrorKind::kInvalidArgument;
    if (!may_be_cut || look == most) return pickles;
  }
}

/// The storage with its element count at `offset`.
Result<ZipEntry> place_of(const ByteSource& file, const PickledStorage& storage, int64_t offset) {
  const StoredType* type = find_stored_type(storage.dtype);
  LOCKSTEP_CHECK(type != nullptr, storage.dtype);
  const std::string place = fmt::format("{}: storage {}", file.path.string(), storage.key);
  int64_t elements = 0;
  if (file.size - offset < int64_t{sizeof elements}) {
    return damaged(place, fmt::format("found the file's end, expected {} elements", storage.elements));
  }
  LOCKSTEP_TRY_VOID(file.read(offset, std::as_writable_bytes(std::span(&elements, 1))));
  if (elements != storage.elements) {
    return damaged(place, fmt::format("found {} elements, expected {}", elements, storage.elements));
  }
  ZipEntry entry{.offset = offset + int64_t{sizeof elements}};
  const bool fits = !__builtin_mul_overflow(elements, type->bits / 8, &entry.size) && entry.size >= 0 &&
                    entry.size <= file.size - entry.offset;
  if (!fits) return damaged(place, fmt::format("found the file's end in it, expected {} elements", elements));
  return entry;
}

}  // namespace

Result<TorchContents> read_old_torch_file(const ByteSource& file) {
  LOCKSTEP_TRY(OldTorchPickles pickles, read_pickles(file));
  TorchContents contents{.tensors = std::move(pickles.tensors)};
  int64_t offset = pickles.bytes;
  for (const PickledStorage& storage : pickles.storages) {
    LOCKSTEP_TRY(const ZipEntry place, place_of(file, storage, offset));
    contents.storages.emplace(storage.key, place);
    offset = place.offset + place.size;
  }
  return contents;
}

}  // namespace lockstep::checkpoint
