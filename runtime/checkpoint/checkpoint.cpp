#include "runtime/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/checkpoint/stored_files.h"
#include "runtime/checkpoint/view_checkpoint.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kComparedBytes = int64_t{1} << 20;  // per block of a tensor

/// Whether two rows of float32 are equal; 0 equals −0.
bool equal_floats(const std::vector<std::byte>& left, const std::vector<std::byte>& right) {
  const auto* a = reinterpret_cast<const float*>(left.data());
  const auto* b = reinterpret_cast<const float*>(right.data());
  return std::equal(a, a + left.size() / sizeof(float), b);
}

/// Whether two tensors of one shape share their bytes in the file, like tied ones of a .bin.
bool share_bytes(const TensorEntry& a, const TensorEntry& b) {
  return a.file == b.file && a.offset == b.offset && a.stored_dtype == b.stored_dtype && a.strides == b.strides;
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::filesystem::path& directory) {
  LOCKSTEP_TRY(auto files, StoredFiles::open(directory));
  std::map<std::string, StoredTensor, std::less<>> stored;
  for (const auto& [name, entry] : files->tensors()) stored.emplace(name, as_it_is(name, entry));
  const auto names_of = [](std::string_view) { return std::string("of that name"); };
  return std::unique_ptr<Checkpoint>(std::make_unique<ViewCheckpoint>(std::move(files), std::move(stored), names_of));
}

Result<bool> hold_equal_values(const Checkpoint& checkpoint, std::string_view a, std::string_view b,
                               std::optional<Range> rows) {
  LOCKSTEP_CHECK(checkpoint.contains(a) && checkpoint.contains(b), a, b);
  const TensorEntry& first = checkpoint.tensors().find(a)->second;
  const TensorEntry& second = checkpoint.tensors().find(b)->second;
  const TensorType &type = first.type, &other = second.type;
  const Shape& shape = type.shape;
  if (other.shape != shape) return false;
  if (share_bytes(first, second)) return true;
  LOCKSTEP_CHECK(shape.rank() == 1 || shape.rank() == 2, a, lockstep::to_string(shape));
  const int64_t columns = shape.rank() == 2 ? shape[1] : 1;
  const int64_t block = std::max<int64_t>(1, kComparedBytes / (4 * std::max<int64_t>(1, columns)));  // rows
  Range all = rows.value_or(Range{0, shape[0]});
  all.end = std::min(all.end, shape[0]);  // a config may have more rows; then reading the tensor fails
  const bool as_stored = type.dtype == other.dtype && is_float(type.dtype);
  std::vector<std::byte> left, right;
  const auto read_both = [&](const std::vector<Range>& ranges, DType dtype) -> Result<void> {
    left.resize(static_cast<size_t>(ranges[0].size() * columns) * size_of(dtype));
    right.resize(left.size());
    LOCKSTEP_TRY_VOID(checkpoint.read(a, shape, ranges, dtype, left));
    return checkpoint.read(b, shape, ranges, dtype, right);
  };
  for (int64_t row = all.begin; row < all.end; row += block) {
    std::vector<Range> ranges = {{row, std::min(row + block, all.end)}};
    if (shape.rank() == 2) ranges.push_back({0, columns});
    if (as_stored) {  // the bytes are nearly always equal
      LOCKSTEP_TRY_VOID(read_both(ranges, type.dtype));
      if (left == right) continue;
    }
    LOCKSTEP_TRY_VOID(read_both(ranges, DType::kFloat32));
    if (!equal_floats(left, right)) return false;
  }
  return true;
}

}  // namespace lockstep::checkpoint
