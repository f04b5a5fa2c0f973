#include "runtime/backends/cpu/fused_linear.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

int64_t to_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

int64_t FusedLinear::made_bytes() const {
  if (!make_row) return 0;
  return to_lines(task.arranged_bytes()) + to_lines(task.x.columns * task.x.element_size());  // and one row before it
}

int64_t FusedLinear::private_bytes() const { return made_bytes() + task.private_bytes(); }

void FusedLinear::run(const std::byte* arranged, std::byte* private_scratch, Part part) const {
  if (make_row) {
    std::byte* const row_made = private_scratch + to_lines(task.arranged_bytes());
    const bool is_as_made = !needs_arranging(task.weight.packing, task.x.dtype);
    for (int64_t row = 0; row < task.x.used_rows(); ++row) {
      std::byte* const to = private_scratch + row * task.arranged_stride();
      make_row(row, is_as_made ? to : row_made);
      if (!is_as_made) arrange_row(*task.kernels, task.weight.packing, {row_made, task.x.dtype}, to);
    }
    arranged = private_scratch;
  }
  task.run(arranged, private_scratch + made_bytes(), part);
  if (tails.empty()) return;
  const int64_t columns = task.weight.packing.n / (task.has_halves ? 2 : 1);
  const Strips share = task.share(part);
  const Range mine{std::min(share.begin * kStrip, columns), std::min(share.end * kStrip, columns)};
  if (mine.size() <= 0) return;
  for (const auto& tail : tails) tail(mine);
}

}  // namespace lockstep::cpu
