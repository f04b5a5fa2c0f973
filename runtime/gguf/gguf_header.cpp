#include "runtime/gguf/gguf_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "runtime/gguf/read_error.h"

namespace lockstep::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are little-endian and read as they are");

constexpr uint64_t kLongestName = 65535;  // of a key or a tensor
constexpr uint32_t kMostDimensions = 4;
constexpr int64_t kWindow = int64_t{1} << 20;  // bytes read at once
constexpr uint64_t kLeastKeyBytes = 8 + 4 + 1;
constexpr uint64_t kLeastTensorBytes = 8 + 4 + 8 + 4 + 8;

/// Bytes of an element that is not a string.
uint64_t size_of(ValueType type) {
  switch (type) {
    case ValueType::kUInt8:
    case ValueType::kInt8:
    case ValueType::kBool: return 1;
    case ValueType::kUInt16:
    case ValueType::kInt16: return 2;
    case ValueType::kUInt32:
    case ValueType::kInt32:
    case ValueType::kFloat32: return 4;
    default: return 8;
  }
}

/// Reads a header from its start on, through a window of the file.
class HeaderParser {
 public:
  explicit HeaderParser(const ByteSource& file) : file_(file) {}

  Result<GgufHeader> parse();

 private:
  Result<void> read_magic();
  Result<void> read_key();
  Result<void> read_elements(std::string_view key, MetadataValue& value);
  Result<TensorRecord> read_tensor();
  Result<void> read_shape(TensorRecord& tensor);
  Result<int64_t> read_alignment() const;
  Result<void> place_tensors(int64_t alignment);
  Result<void> check_apart() const;

  template <typename T>
  Result<T> number(std::string_view what);
  Result<std::string> name(std::string_view what);
  Result<uint64_t> length(std::string_view what);
  Result<void> append(uint64_t bytes, std::string_view what, std::string& dst);
  Result<uint64_t> count(std::string_view what, uint64_t least_bytes);
  uint64_t left() const { return static_cast<uint64_t>(file_.size - position_); }
  Error wrong(std::string_view found_and_expected) const { return damaged(file_.path, found_and_expected); }

  const ByteSource& file_;
  int64_t position_ = 0;
  int64_t window_begin_ = 0;
  std::vector<std::byte> window_;
  GgufHeader header_;
  std::set<std::string, std::less<>> names_;
};

/// Appends the next `bytes` of the file to `dst`.
Result<void> HeaderParser::append(uint64_t bytes, std::string_view what, std::string& dst) {
  if (bytes > left()) {
    return wrong(fmt::format("found {} bytes left, expected {} for {}", left(), bytes, what));
  }
  while (bytes > 0) {
    const int64_t window_end = window_begin_ + static_cast<int64_t>(window_.size());
    if (position_ >= window_end) {
      window_begin_ = position_;
      window_.resize(static_cast<size_t>(std::min(kWindow, file_.size - position_)));
      LOCKSTEP_TRY_VOID(file_.read(position_, window_));
      continue;
    }
    const auto part = std::min(bytes, static_cast<uint64_t>(window_end - position_));
    dst.append(reinterpret_cast<const char*>(window_.data()) + (position_ - window_begin_), part);
    position_ += static_cast<int64_t>(part);
    bytes -= part;
  }
  return ok();
}

template <typename T>
Result<T> HeaderParser::number(std::string_view what) {
  std::string bytes;
  LOCKSTEP_TRY_VOID(append(sizeof(T), what, bytes));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// The length of a string.
Result<uint64_t> HeaderParser::length(std::string_view what) {
  LOCKSTEP_TRY(const auto bytes, number<uint64_t>(what));
  if (bytes > left()) return wrong(fmt::format("found {} of {} bytes, expected at most {}", what, bytes, left()));
  return bytes;
}

Result<std::string> HeaderParser::name(std::string_view what) {
  LOCKSTEP_TRY(const uint64_t bytes, length(what));
  if (bytes == 0 || bytes > kLongestName) {
    return wrong(fmt::format("found {} of {} bytes, expected 1 to {}", what, bytes, kLongestName));
  }
  std::string text;
  LOCKSTEP_TRY_VOID(append(bytes, what, text));
  return text;
}

/// A number of items of at least `least_bytes` each.
Result<uint64_t> HeaderParser::count(std::string_view what, uint64_t least_bytes) {
  LOCKSTEP_TRY(const auto items, number<uint64_t>(what));
  if (items > left() / least_bytes) {
    return wrong(
        fmt::format("found {} {}, expected at most {} in the rest of the file", items, what, left() / least_bytes));
  }
  return items;
}

Result<void> HeaderParser::read_magic() {
  std::string magic;
  LOCKSTEP_TRY_VOID(append(4, "the four letters GGUF", magic));
  if (magic != "GGUF") return wrong("found other bytes at its start, expected the four letters GGUF");
  LOCKSTEP_TRY(header_.version, number<uint32_t>("the version"));
  if (header_.version == 2 || header_.version == 3) return ok();
  const bool is_big_endian = (header_.version & 0xffff) == 0 && header_.version != 0;
  return unsupported(file_.path, is_big_endian ? "found big-endian numbers, expected little-endian ones"
                                               : fmt::format("found version {}, expected 2 or 3", header_.version));
}

Result<void> HeaderParser::read_key() {
  LOCKSTEP_TRY(std::string key, name("the name of a key"));
  LOCKSTEP_TRY(auto type, number<uint32_t>(fmt::format("the type of key {}", key)));
  MetadataValue value;
  if (type == static_cast<uint32_t>(ValueType::kArray)) {
    value.is_array = true;
    LOCKSTEP_TRY(type, number<uint32_t>(fmt::format("the elements' type of key {}", key)));
    if (type == static_cast<uint32_t>(ValueType::kArray)) {
      return unsupported(file_.path, fmt::format("found an array of arrays in key {}, expected numbers, booleans or "
                                                 "strings",
                                                 key));
    }
  }
  if (type > static_cast<uint32_t>(ValueType::kFloat64)) {
    return wrong(fmt::format("found type {} of key {}, expected 0 to 12", type, key));
  }
  value.type = static_cast<ValueType>(type);
  if (value.is_array) {
    const uint64_t least = value.type == ValueType::kString ? sizeof(uint64_t) : size_of(value.type);
    LOCKSTEP_TRY(value.count, count(fmt::format("elements of key {}", key), least));
  }
  LOCKSTEP_TRY_VOID(read_elements(key, value));
  if (header_.metadata.contains(key)) return wrong(fmt::format("found key {} twice, expected it once", key));
  header_.metadata.emplace(std::move(key), std::move(value));
  return ok();
}

Result<void> HeaderParser::read_elements(std::string_view key, MetadataValue& value) {
  const std::string what = fmt::format("a value of key {}", key);
  if (value.type != ValueType::kString) {
    LOCKSTEP_TRY_VOID(append(value.count * size_of(value.type), what, value.bytes));
    const auto is_no_bool = [](char byte) { return byte != 0 && byte != 1; };
    if (value.type == ValueType::kBool && std::ranges::any_of(value.bytes, is_no_bool)) {
      return wrong(fmt::format("found a boolean of key {} that is neither 0 nor 1, expected one of them", key));
    }
    return ok();
  }
  for (uint64_t i = 0; i < value.count; ++i) {
    LOCKSTEP_TRY(const uint64_t bytes, length(what));
    value.bytes.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    LOCKSTEP_TRY_VOID(append(bytes, what, value.bytes));
  }
  return ok();
}

/// The dimensions, at most 2⁶³ − 1 elements together.
Result<void> HeaderParser::read_shape(TensorRecord& tensor) {
  LOCKSTEP_TRY(const auto dimensions, number<uint32_t>(fmt::format("the dimensions of tensor {}", tensor.name)));
  if (dimensions == 0 || dimensions > kMostDimensions) {
    return wrong(
        fmt::format("found {} dimensions of tensor {}, expected 1 to {}", dimensions, tensor.name, kMostDimensions));
  }
  int64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    LOCKSTEP_TRY(const auto size, number<uint64_t>(fmt::format("a dimension of tensor {}", tensor.name)));
    const bool fits = size >= 1 && size <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) &&
                      !__builtin_mul_overflow(elements, static_cast<int64_t>(size), &elements);
    if (!fits) {
      return wrong(fmt::format("found a dimension of {} elements in tensor {}, expected 1 to 2^63 - 1 in all", size,
                               tensor.name));
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
  }
  return ok();
}

/// A tensor with its offset relative to the data.
Result<TensorRecord> HeaderParser::read_tensor() {
  TensorRecord tensor;
  LOCKSTEP_TRY(tensor.name, name("the name of a tensor"));
  if (!names_.insert(tensor.name).second) {
    return wrong(fmt::format("found tensor {} twice, expected it once", tensor.name));
  }
  LOCKSTEP_TRY_VOID(read_shape(tensor));
  LOCKSTEP_TRY(const auto type, number<uint32_t>(fmt::format("the type of tensor {}", tensor.name)));
  tensor.type = find_block_type(type);
  if (tensor.type == nullptr) {
    return unsupported(file_.path, fmt::format("found type {} of tensor {}, expected a known one", type, tensor.name));
  }
  if (tensor.shape.back() % tensor.type->block != 0) {
    return wrong(fmt::format("found {} columns of tensor {}, expected a multiple of {} for {}", tensor.shape.back(),
                             tensor.name, tensor.type->block, tensor.type->name));
  }
  int64_t blocks = tensor.shape.back() / tensor.type->block;
  for (size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) blocks *= tensor.shape[axis];
  LOCKSTEP_TRY(const auto offset, number<uint64_t>(fmt::format("the offset of tensor {}", tensor.name)));
  const bool fits = !__builtin_mul_overflow(blocks, tensor.type->bytes, &tensor.bytes) && tensor.bytes <= file_.size &&
                    offset <= static_cast<uint64_t>(file_.size);
  if (!fits) {
    return wrong(
        fmt::format("found tensor {} at byte {} of the data, of {} blocks of {} bytes, expected it inside a "
                    "file of {} bytes",
                    tensor.name, offset, blocks, tensor.type->bytes, file_.size));
  }
  tensor.offset = static_cast<int64_t>(offset);
  return tensor;
}

Result<int64_t> HeaderParser::read_alignment() const {
  constexpr int64_t kUsual = 32;
  const MetadataValue* value = header_.find("general.alignment");
  if (value == nullptr) return kUsual;
  uint32_t alignment = 0;
  if (value->type == ValueType::kUInt32 && !value->is_array) {
    std::memcpy(&alignment, value->bytes.data(), sizeof alignment);
  }
  if (!std::has_single_bit(alignment)) {
    return wrong(fmt::format("found general.alignment {}, expected a power of two of type u32", alignment));
  }
  return static_cast<int64_t>(alignment);
}

/// Makes the offsets relative to the file, and checks them.
Result<void> HeaderParser::place_tensors(int64_t alignment) {
  const int64_t data = (position_ + alignment - 1) / alignment * alignment;
  for (TensorRecord& tensor : header_.tensors) {
    if (tensor.offset % alignment != 0) {
      return wrong(fmt::format("found tensor {} at byte {} of the data, expected a multiple of {}", tensor.name,
                               tensor.offset, alignment));
    }
    if (data > file_.size || tensor.offset > file_.size - data - tensor.bytes) {
      return wrong(fmt::format("found {} bytes of data, expected tensor {} up to byte {}; it is truncated",
                               std::max<int64_t>(0, file_.size - data), tensor.name, tensor.offset + tensor.bytes));
    }
    tensor.offset += data;
  }
  return check_apart();
}

Result<void> HeaderParser::check_apart() const {
  std::vector<const TensorRecord*> sorted;
  for (const TensorRecord& tensor : header_.tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, {}, [](const TensorRecord* tensor) { return std::pair(tensor->offset, tensor->name); });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const TensorRecord &before = *sorted[i - 1], &after = *sorted[i];
    if (after.offset >= before.offset + before.bytes) continue;
    return wrong(fmt::format("found tensor {} at byte {}, expected it after tensor {} (byte {}): they overlap",
                             after.name, after.offset, before.name, before.offset + before.bytes));
  }
  return ok();
}

Result<GgufHeader> HeaderParser::parse() {
  header_.path = file_.path;
  LOCKSTEP_TRY_VOID(read_magic());
  LOCKSTEP_TRY(const uint64_t tensors, count("tensors", kLeastTensorBytes));
  LOCKSTEP_TRY(const uint64_t keys, count("keys", kLeastKeyBytes));
  for (uint64_t i = 0; i < keys; ++i) LOCKSTEP_TRY_VOID(read_key());
  for (uint64_t i = 0; i < tensors; ++i) {
    LOCKSTEP_TRY(TensorRecord tensor, read_tensor());
    header_.tensors.push_back(std::move(tensor));
  }
  LOCKSTEP_TRY(const int64_t alignment, read_alignment());
  LOCKSTEP_TRY_VOID(place_tensors(alignment));
  return std::move(header_);
}

}  // namespace

const MetadataValue* GgufHeader::find(std::string_view key) const {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

const TensorRecord* GgufHeader::find_tensor(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &TensorRecord::name);
  return found == tensors.end() ? nullptr : &*found;
}

Result<GgufHeader> read_header(const ByteSource& file) { return HeaderParser(file).parse(); }

Result<GgufHeader> read_header(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::error_code failed;
  const auto size = std::filesystem::file_size(path, failed);
  if (!stream || failed) {
    return Error{ErrorKind::kNotFound, fmt::format("[runtime/gguf] cannot read {}: found no readable file, expected a "
                                                   "GGUF file; check the path",
                                                   path.string())};
  }
  const auto read = [&](int64_t offset, std::span<std::byte> dst) -> Result<void> {
    stream.seekg(offset);
    stream.read(reinterpret_cast<char*>(dst.data()), static_cast<std::streamsize>(dst.size()));
    if (stream) return ok();
    return damaged(path, fmt::format("found no {} bytes at byte {}, expected them", dst.size(), offset));
  };
  return read_header({path, static_cast<int64_t>(size), read});
}

}  // namespace lockstep::gguf
