#include "runtime/checkpoint/coded_tensor.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/core/check.h"
#include "runtime/core/dtype.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kBufferElements = int64_t{1} << 19;

/// Reads columns in the order of `read`.
Result<void> read_in_order(const StoredFiles& files, const CodedTensor& tensor, Range rows, Range columns, DType dtype,
                           std::span<std::byte> dst) {
  const WeightFormat& format = tensor.format();
  const int64_t width = columns.size(), first = columns.begin / format.group;
  const int64_t groups = (columns.end + format.group - 1) / format.group - first;
  const auto row_bytes = static_cast<size_t>(width) * size_of(dtype);
  LOCKSTEP_CHECK(dst.size() == static_cast<size_t>(rows.size()) * row_bytes, dst.size(), to_string(rows), row_bytes);
  const int64_t at_once = std::max<int64_t>(tensor.rows_at_once(), kBufferElements / std::max<int64_t>(width, 1));
  const int64_t most = std::clamp<int64_t>(at_once, 1, std::max<int64_t>(rows.size(), 1));
  std::vector<uint8_t> codes(static_cast<size_t>(most * width));
  std::vector<float> scales(static_cast<size_t>(most * groups));
  std::vector<float> offsets(format.offset == GroupOffset::kNone ? 0 : scales.size());
  std::vector<float> row(static_cast<size_t>(width));
  for (int64_t begin = rows.begin; begin < rows.end; begin += most) {
    const Range part{begin, std::min(begin + most, rows.end)};
    const auto count = static_cast<size_t>(part.size());
    const auto of_groups = [&](std::vector<float>& all) {
      return std::span(all).first(all.empty() ? 0 : count * static_cast<size_t>(groups));
    };
    LOCKSTEP_TRY_VOID(tensor.read(
        files, part, columns,
        {std::span(codes).first(count * static_cast<size_t>(width)), of_groups(scales), of_groups(offsets)}));
    for (int64_t r = 0; r < part.size(); ++r) {
      for (int64_t k = 0; k < width; ++k) {
        const auto group = static_cast<size_t>(r * groups + (columns.begin + k) / format.group - first);
        row[static_cast<size_t>(k)] = decode(format, codes[static_cast<size_t>(r * width + k)], scales[group],
                                             offsets.empty() ? 0.0f : offsets[group]);
      }
      convert_elements(reinterpret_cast<const std::byte*>(row.data()), DType::kFloat32, dst.data(), dtype, row.size());
      dst = dst.subspan(row_bytes);
    }
  }
  return ok();
}

}  // namespace

Result<void> read_decoded(const StoredFiles& files, const CodedTensor& tensor, Range rows, Range columns, DType dtype,
                          std::span<std::byte> dst) {
  const std::span<const int32_t> order = tensor.order();
  if (order.empty()) return read_in_order(files, tensor, rows, columns, dtype, dst);
  const size_t size = size_of(dtype), row_bytes = static_cast<size_t>(columns.size()) * size;
  const int64_t most = std::max<int64_t>(1, kBufferElements / std::ssize(order));
  std::vector<std::byte> all;
  for (Range part = rows; part.begin < rows.end; part.begin = part.end) {
    part.end = std::min(part.begin + most, rows.end);
    all.resize(static_cast<size_t>(part.size()) * order.size() * size);
    LOCKSTEP_TRY_VOID(read_in_order(files, tensor, part, {0, std::ssize(order)}, dtype, all));
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i] < columns.begin || order[i] >= columns.end) continue;
      std::byte* to = dst.data() + static_cast<size_t>(order[i] - columns.begin) * size;
      for (size_t row = 0; row < static_cast<size_t>(part.size()); ++row, to += row_bytes) {
        std::memcpy(to, all.data() + (row * order.size() + i) * size, size);
      }
    }
    dst = dst.subspan(static_cast<size_t>(part.size()) * row_bytes);
  }
  return ok();
}

}  // namespace lockstep::checkpoint
