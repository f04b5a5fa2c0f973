#include "runtime/checkpoint/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/stored_type.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kLengthField = 8;
constexpr int64_t kLargestHeader = 100'000'000;  // the format's own limit

Result<StoredType> read_type(const KeyReader& tensor) {
  LOCKSTEP_TRY(const std::string name, tensor.text("dtype"));
  if (const StoredType* type = find_stored_type(name)) return *type;
  return tensor.wrong("dtype", "a type of the safetensors format");
}

/// Reads a list of non-negative integers.
Result<std::vector<int64_t>> read_numbers(const KeyReader& tensor, std::string_view key) {
  const json* list = tensor.find(key);
  if (list == nullptr || !list->is_array()) return tensor.wrong(key, "a list of whole numbers");
  std::vector<int64_t> numbers;
  for (const json& number : *list) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > static_cast<uint64_t>(kLargest)) {
      return tensor.wrong(key, fmt::format("whole numbers, not {}", describe(number)));
    }
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

/// Bytes of a dense tensor; empty when they exceed 63 bits or are not a whole number.
std::optional<int64_t> dense_bytes(const std::vector<int64_t>& dims, int bits) {
  int64_t total = bits;
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(total, dim, &total)) return std::nullopt;
  }
  return total % 8 == 0 ? std::optional<int64_t>(total / 8) : std::nullopt;
}

Result<TensorEntry> read_entry(const KeyReader& tensor, int64_t data_start, int64_t file_size,
                               const std::filesystem::path& file) {
  LOCKSTEP_TRY(const StoredType type, read_type(tensor));
  LOCKSTEP_TRY(std::vector<int64_t> dims, read_numbers(tensor, "shape"));
  LOCKSTEP_TRY(const std::vector<int64_t> offsets, read_numbers(tensor, "data_offsets"));
  const int64_t data_size = file_size - data_start;
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_size) {
    return damaged(tensor.origin(),
                   fmt::format("data_offsets: found [{}], expected [begin, end] inside {} bytes of data",
                               fmt::join(offsets, ", "), data_size));
  }
  const Shape shape(std::move(dims));
  const std::optional<int64_t> bytes = dense_bytes(shape.dims(), type.bits);
  if (bytes != offsets[1] - offsets[0]) {
    return damaged(tensor.origin(),
                   fmt::format("found {} bytes, expected {} for {}{}", offsets[1] - offsets[0],
                               bytes ? fmt::format("{}", *bytes) : "another number", type.name, to_string(shape)));
  }
  return TensorEntry{.file = file,
                     .type = {type.readable.value_or(DType::kUInt8), shape},
                     .offset = data_start + offsets[0],
                     .bytes = *bytes,
                     .stored_dtype = std::string(type.name),
                     .can_be_read = type.readable.has_value()};
}

/// Checks that every data byte belongs to exactly one tensor.
Result<void> check_cover(const TensorMap& tensors, int64_t data_start, int64_t file_size,
                         const std::filesystem::path& file) {
  struct Extent {
    int64_t begin, end;
    std::string_view name;
  };
  std::vector<Extent> extents;
  for (const auto& [name, entry] : tensors) extents.push_back({entry.offset, entry.offset + entry.bytes, name});
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  int64_t end = data_start;
  for (const Extent& extent : extents) {
    if (extent.begin != end) {
      return damaged(file.string(),
                     fmt::format("tensor {}: found it at byte {}, expected byte {} ({} between tensors)", extent.name,
                                 extent.begin, end, extent.begin < end ? "an overlap" : "a hole"));
    }
    end = extent.end;
  }
  if (end != file_size) {
    return damaged(file.string(),
                   fmt::format("found {} bytes, expected {} (the end of the last tensor)", file_size, end));
  }
  return ok();
}

}  // namespace

Result<TensorMap> parse_safetensors_header(std::span<const std::byte> header, int64_t data_start, int64_t file_size,
                                           const std::filesystem::path& file) {
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  LOCKSTEP_TRY(const json document, parse_json_object(text, fmt::format("the header of {}", file.string())));
  TensorMap tensors;
  for (const auto& [name, value] : document.items()) {
    if (name == "__metadata__") continue;
    const std::string origin = fmt::format("{}: tensor {}", file.string(), name);
    if (!value.is_object()) {
      return damaged(origin, fmt::format("found {}, expected an object", describe(value)));
    }
    LOCKSTEP_TRY(TensorEntry entry, read_entry(KeyReader(value, origin), data_start, file_size, file));
    tensors.emplace(name, std::move(entry));
  }
  LOCKSTEP_TRY_VOID(check_cover(tensors, data_start, file_size, file));
  return tensors;
}

Result<TensorMap> read_safetensors_header(const ByteSource& file) {
  if (file.size < kLengthField) {
    return damaged(file.path.string(), fmt::format("found {} bytes, expected a header", file.size));
  }
  uint64_t length = 0;
  LOCKSTEP_TRY_VOID(file.read(0, std::as_writable_bytes(std::span(&length, 1))));
  const int64_t room = std::min(file.size - kLengthField, kLargestHeader);
  if (length > static_cast<uint64_t>(room)) {
    return damaged(file.path.string(), fmt::format("found a header of {} bytes, expected at most {}", length, room));
  }
  std::vector<std::byte> header(length);
  LOCKSTEP_TRY_VOID(file.read(kLengthField, header));
  return parse_safetensors_header(header, kLengthField + static_cast<int64_t>(length), file.size, file.path);
}

}  // namespace lockstep::checkpoint
