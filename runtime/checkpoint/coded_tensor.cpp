#include "runtime/checkpoint/coded_tensor.h"

#include <algorithm>
#include <vector>

#include "runtime/core/check.h"
#include "runtime/core/dtype.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kBufferElements = int64_t{1} << 19;

}  // namespace

Result<void> read_decoded(const StoredFiles& files, const CodedTensor& tensor, Range rows, Range columns, DType dtype,
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

}  // namespace lockstep::checkpoint
