#include "runtime/checkpoint/coded_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/checkpoint/stored_type.h"

namespace lockstep::checkpoint {
namespace {

Error bad_tensor(ErrorKind kind, std::string_view name, std::string_view file, std::string_view found,
                 std::string_view expected) {
  return {kind,
          fmt::format("[runtime/checkpoint] cannot read tensor {} of {}: found {}, expected {}; the file is damaged "
                      "or belongs to another config, fetch both again",
                      name, file, found, expected)};
}

/// A number of `type` at `element`.
float number_at(const std::byte* element, std::string_view type) {
  uint32_t word = 0;
  uint16_t half = 0;
  if (type == "F32") {
    std::memcpy(&word, element, sizeof word);
    return std::bit_cast<float>(word);
  }
  if (type == "F16" || type == "BF16") {
    std::memcpy(&half, element, sizeof half);
    return type == "F16" ? to_float(Float16{half}) : to_float(BFloat16{half});
  }
  const auto byte = static_cast<uint8_t>(*element);
  if (type == "F8_E4M3") return e4m3_value(byte);
  return byte == 255 ? std::nanf("") : std::ldexp(1.0f, int{byte} - 127);
}

}  // namespace

Error wrong_part(const CodedPart& part, std::string_view found, std::string_view expected) {
  return bad_tensor(ErrorKind::kInvalidArgument, part.name, part.bytes.file.string(), found, expected);
}

Result<CodedPart> find_part(const StoredFiles& files, const std::string& name, std::span<const std::string_view> types,
                            std::string_view beside, const std::optional<StackPlace>& stack) {
  const auto at = files.tensors().find(name);
  if (at == files.tensors().end()) {
    return bad_tensor(ErrorKind::kNotFound, name, files.directory().string(), "no such tensor",
                      fmt::format("it beside {}", beside));
  }
  const TensorEntry& entry = at->second;
  CodedPart part{.name = name, .type = entry.stored_dtype, .bytes = {.file = entry.file}};
  const Shape& shape = entry.type.shape;
  if (std::ranges::find(types, part.type) == types.end()) {
    return wrong_part(part, part.type, fmt::format("{}", fmt::join(types, ", ")));
  }
  const size_t first = stack ? 1 : 0;
  if (shape.rank() > first + 2 || shape.elements() == 0 || !entry.strides.empty() ||
      (stack && (shape.rank() == 0 || shape[0] != stack->experts))) {
    return wrong_part(part, fmt::format("shape {}{}", to_string(shape), entry.strides.empty() ? "" : " with strides"),
                      stack ? fmt::format("dense matrices of {} experts", stack->experts)
                            : std::string("a dense matrix with elements"));
  }
  part.rows = shape.rank() > first ? shape[first] : 1;
  part.columns = shape.rank() > first + 1 ? shape[first + 1] : 1;
  part.size = find_stored_type(part.type)->bits / 8;
  part.bytes.dtype = DType::kUInt8;
  part.bytes.offset = entry.offset + (stack ? stack->expert * part.elements() * part.size : 0);
  part.bytes.rows = part.bytes.group = part.rows;
  part.bytes.columns = part.bytes.row_stride = part.columns * part.size;
  part.bytes.column_stride = 1;
  return part;
}

Result<void> require_shape(const CodedPart& part, int64_t rows, int64_t columns) {
  if (part.rows == rows && part.columns == columns) return ok();
  return wrong_part(part, fmt::format("shape {}", to_string(Shape{part.rows, part.columns})),
                    to_string(Shape{rows, columns}));
}

Result<void> read_part(const StoredFiles& files, const CodedPart& part, Range rows, Range columns,
                       std::vector<std::byte>& dst) {
  const Range bytes{columns.begin * part.size, columns.end * part.size};
  dst.resize(static_cast<size_t>(rows.size() * bytes.size()));
  return read_view(files, part.bytes, rows, bytes, DType::kUInt8, dst);
}

Result<void> read_scales(const StoredFiles& files, const CodedPart& part, Range rows, Range columns,
                         std::vector<float>& dst) {
  std::vector<std::byte> bytes;
  LOCKSTEP_TRY_VOID(read_part(files, part, rows, columns, bytes));
  dst.resize(static_cast<size_t>(rows.size() * columns.size()));
  for (size_t i = 0; i < dst.size(); ++i) {
    dst[i] = number_at(bytes.data() + i * static_cast<size_t>(part.size), part.type);
    if (std::isfinite(dst[i])) continue;
    const auto at = static_cast<int64_t>(i);
    return wrong_part(part,
                      fmt::format("the scale {} at [{}, {}]", dst[i], rows.begin + at / columns.size(),
                                  columns.begin + at % columns.size()),
                      "finite scales");
  }
  return ok();
}

Result<std::vector<int64_t>> read_integers(const StoredFiles& files, const CodedPart& part) {
  std::vector<std::byte> bytes;
  LOCKSTEP_TRY_VOID(read_part(files, part, {0, part.rows}, {0, part.columns}, bytes));
  std::vector<int64_t> numbers(static_cast<size_t>(part.elements()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (part.size == 8) {
      std::memcpy(&numbers[i], bytes.data() + i * 8, 8);
    } else {
      numbers[i] = static_cast<int32_t>(word_at(bytes.data() + i * 4));
    }
  }
  return numbers;
}

ScaleType scale_type_of(const CodedPart& part) {
  if (part.type == "F16") return ScaleType::kFloat16;
  if (part.type == "BF16") return ScaleType::kBFloat16;
  return part.type == "U8" || part.type == "F8_E8M0" ? ScaleType::kPowerOfTwo : ScaleType::kFloat32;
}

uint32_t word_at(const std::byte* words) {
  uint32_t word = 0;
  std::memcpy(&word, words, sizeof word);
  return word;
}

}  // namespace lockstep::checkpoint
