#include "runtime/checkpoint/torch_file.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/old_torch_file.h"
#include "runtime/checkpoint/stored_type.h"
#include "runtime/checkpoint/unpickler.h"
#include "runtime/checkpoint/zip_directory.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kPickle = "data.pkl";

using Archive = std::map<std::string, ZipEntry, std::less<>>;

Error unsupported(const ByteSource& file, std::string_view found, std::string_view expected) {
  return {ErrorKind::kUnsupported,
          fmt::format("[runtime/checkpoint] cannot read {}: found {}, expected {}; convert it with a recent torch: "
                      "torch.save(torch.load(FILE, weights_only=True), FILE)",
                      file.path.string(), found, expected)};
}

/// The path ROOT/ of the only pickle.
Result<std::string> find_root(const ByteSource& file, const Archive& archive) {
  std::optional<std::string> root;
  for (const auto& [name, entry] : archive) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos || std::string_view(name).substr(slash + 1) != kPickle) continue;
    if (root) return damaged(file.path.string(), "found two files data.pkl, expected one");
    root = name.substr(0, slash + 1);
  }
  if (!root) return damaged(file.path.string(), "found no file data.pkl in it, expected what torch.save writes");
  return *root;
}

Result<std::vector<std::byte>> read_entry(const ByteSource& file, const ZipEntry& entry, std::string_view name,
                                          int64_t most) {
  if (entry.size > most) {
    return damaged(file.path.string(), fmt::format("{}: found {} bytes, expected at most {}", name, entry.size, most));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(entry.size));
  LOCKSTEP_TRY_VOID(file.read(entry.offset, bytes));
  return bytes;
}

Result<void> check_byte_order(const ByteSource& file, const Archive& archive, const std::string& root) {
  const auto it = archive.find(root + "byteorder");
  if (it == archive.end()) return ok();
  LOCKSTEP_TRY(const auto bytes, read_entry(file, it->second, "byteorder", /*most=*/16));
  const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (order != "little") return unsupported(file, "weights that are not little-endian", "little-endian ones");
  return ok();
}

/// One past the last element of a tensor, and whether the tensor is dense; empty when that exceeds 63 bits.
struct Extent {
  int64_t end = 0;
  int64_t elements = 1;
  bool dense = true;  // row-major
};
std::optional<Extent> extent_of(const PickledTensor& tensor) {
  Extent extent{.end = tensor.first};
  for (size_t axis = tensor.shape.size(); axis-- > 0;) {
    const int64_t size = tensor.shape[axis], stride = tensor.strides[axis];
    if (size != 1 && stride != extent.elements) extent.dense = false;
    if (__builtin_mul_overflow(extent.elements, size, &extent.elements)) return std::nullopt;
    int64_t reach = 0;
    if (size > 0 &&
        (__builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(extent.end, reach, &extent.end))) {
      return std::nullopt;
    }
  }
  if (extent.elements == 0) return Extent{.end = tensor.first, .elements = 0};
  if (__builtin_add_overflow(extent.end, 1, &extent.end)) return std::nullopt;
  return extent;
}

Result<TensorEntry> entry_of(const ByteSource& file, const std::string& name, const PickledTensor& tensor,
                             const StoragePlaces& storages) {
  const std::string place = fmt::format("{}: tensor {}", file.path.string(), name);
  const auto storage = storages.find(tensor.storage);
  if (storage == storages.end()) {
    return damaged(place, fmt::format("found no storage {}, expected it in the file", tensor.storage));
  }
  const StoredType* type = find_stored_type(tensor.dtype);
  LOCKSTEP_CHECK(type != nullptr, tensor.dtype);
  const int64_t size = type->bits / 8;
  const int64_t held = storage->second.size / size;
  if (tensor.storage_elements > held) {
    return damaged(place, fmt::format("found a storage of {} bytes, expected {} elements of {}", storage->second.size,
                                      tensor.storage_elements, type->name));
  }
  const std::optional<Extent> extent = extent_of(tensor);
  if (!extent || extent->end > tensor.storage_elements) {
    return damaged(place,
                   fmt::format("found a shape that exceeds its storage of {} elements", tensor.storage_elements));
  }
  TensorEntry entry{.file = file.path,
                    .type = {type->readable.value_or(DType::kUInt8), Shape(tensor.shape)},
                    .offset = storage->second.offset + tensor.first * size,
                    .bytes = 0,
                    .stored_dtype = std::string(type->name),
                    .can_be_read = type->readable.has_value()};
  if (__builtin_mul_overflow(extent->elements, size, &entry.bytes)) {
    return damaged(place, "found a shape of more elements than a file can hold");
  }
  if (!extent->dense) entry.strides = tensor.strides;
  return entry;
}

/// Reads a zip archive.
Result<TorchContents> read_archive(const ByteSource& file) {
  LOCKSTEP_TRY(const Archive archive, read_zip_directory(file));
  LOCKSTEP_TRY(const std::string root, find_root(file, archive));
  LOCKSTEP_TRY_VOID(check_byte_order(file, archive, root));
  const auto pickle_entry = archive.find(fmt::format("{}{}", root, kPickle));
  LOCKSTEP_TRY(const auto pickle, read_entry(file, pickle_entry->second, kPickle, kLargestPickle));
  TorchContents contents;
  LOCKSTEP_TRY(contents.tensors, unpickle_tensors(pickle, fmt::format("{}: {}", file.path.string(), kPickle)));
  const std::string folder = root + "data/";
  for (auto entry = archive.lower_bound(folder); entry != archive.end() && entry->first.starts_with(folder); ++entry) {
    contents.storages.emplace(entry->first.substr(folder.size()), entry->second);
  }
  return contents;
}

/// Zip archives begin with "PK"; files from torch before 1.6 begin with a pickle.
Result<TorchContents> read_contents(const ByteSource& file) {
  std::array<std::byte, 2> start{};
  if (file.size < 2) return damaged(file.path.string(), fmt::format("found {} bytes, expected a zip", file.size));
  LOCKSTEP_TRY_VOID(file.read(0, start));
  if (start[0] == std::byte{0x80}) return read_old_torch_file(file);
  if (start[0] == std::byte{'P'} && start[1] == std::byte{'K'}) return read_archive(file);
  return damaged(file.path.string(), "found no zip archive, expected what torch.save writes");
}

}  // namespace

Result<TensorMap> read_torch_file(const ByteSource& file) {
  LOCKSTEP_TRY(const TorchContents contents, read_contents(file));
  TensorMap tensors;
  for (const auto& [name, tensor] : contents.tensors) {
    LOCKSTEP_TRY(TensorEntry entry, entry_of(file, name, tensor, contents.storages));
    tensors.emplace(name, std::move(entry));
  }
  return tensors;
}

}  // namespace lockstep::checkpoint
