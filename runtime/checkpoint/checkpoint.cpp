#include "runtime/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/checkpoint/stored_files.h"
#include "runtime/checkpoint/view_checkpoint.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kComparedBytes = int64_t{1} << 20;  // of each tensor at a time

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::filesystem::path& directory) {
  LOCKSTEP_TRY(auto files, StoredFiles::open(directory));
  std::map<std::string, StoredTensor, std::less<>> stored;
  for (const auto& [name, entry] : files->tensors()) stored.emplace(name, as_it_is(name, entry));
  const auto names_of = [](std::string_view) { return std::string("of that name"); };
  return std::unique_ptr<Checkpoint>(std::make_unique<ViewCheckpoint>(std::move(files), std::move(stored), names_of));
}

Result<bool> hold_equal_values(const Checkpoint& checkpoint, std::string_view a, std::string_view b) {
  LOCKSTEP_CHECK(checkpoint.contains(a) && checkpoint.contains(b), a, b);
  const Shape shape = checkpoint.tensors().find(a)->second.type.shape;
  if (checkpoint.tensors().find(b)->second.type.shape != shape) return false;
  LOCKSTEP_CHECK(shape.rank() == 1 || shape.rank() == 2, a, lockstep::to_string(shape));
  const int64_t columns = shape.rank() == 2 ? shape[1] : 1;
  const int64_t block = std::max<int64_t>(1, kComparedBytes / (4 * std::max<int64_t>(1, columns)));  // rows
  std::vector<float> left, right;
  for (int64_t row = 0; row < shape[0]; row += block) {
    std::vector<Range> ranges = {{row, std::min(row + block, shape[0])}};
    left.resize(static_cast<size_t>(ranges[0].size() * columns));
    right.resize(left.size());
    if (shape.rank() == 2) ranges.push_back({0, columns});
    LOCKSTEP_TRY_VOID(checkpoint.read(a, shape, ranges, DType::kFloat32, std::as_writable_bytes(std::span(left))));
    LOCKSTEP_TRY_VOID(checkpoint.read(b, shape, ranges, DType::kFloat32, std::as_writable_bytes(std::span(right))));
    if (left != right) return false;
  }
  return true;
}

}  // namespace lockstep::checkpoint
