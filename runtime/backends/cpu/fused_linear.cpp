#include "runtime/backends/cpu/fused_linear.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

int64_t to_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Bytes of a worker's private rows of x, and of one row before it is arranged.
template <typename Task>
int64_t own_bytes(const Task& task) {
  return to_lines(task.arranged_bytes()) + to_lines(task.x.columns * task.x.element_size());
}

/// Fills a worker's private rows of x.
template <typename Task>
void fill_own_rows(const Task& task, const FusedLinear::MakeRow& make_row, std::byte* own) {
  std::byte* const row_made = own + to_lines(task.arranged_bytes());
  for (int64_t row = 0; row < task.x.used_rows(); ++row) {
    std::byte* const to = own + row * task.arranged_stride();
    if (!make_row) {
      task.arrange_made(task.x.const_row(row), to);
    } else if (task.reads_rows_as_made()) {
      make_row(row, to);
    } else {
      make_row(row, row_made);
      task.arrange_made({row_made, task.x.dtype}, to);
    }
  }
}

}  // namespace

void FusedLinear::set_bias(const std::byte* values, DType type) {
  const auto set = [&](auto& of) {
    of.bias = values;
    of.bias_type = type;
  };
  std::visit(set, task_);
}

void FusedLinear::arrange_alone() {
  arranges_alone_ = true;
  std::visit([](auto& of) { of.arrange = true; }, task_);
}

void FusedLinear::make_rows(MakeRow make_row) {
  make_row_ = std::move(make_row);
  arrange_alone();
}

Tensor& FusedLinear::result() {
  return std::visit([](auto& of) -> Tensor& { return of.result; }, task_);
}

void FusedLinear::take_halves() {
  std::visit([](auto& of) { of.has_halves = true; }, task_);
}

int64_t FusedLinear::shared_bytes() const {
  if (arranges_alone_) return 0;
  return std::visit([](const auto& of) { return of.arrange ? of.arranged_bytes() : 0; }, task_);
}

void FusedLinear::arrange_rows(std::byte* arranged, Part part) const {
  std::visit([&](const auto& of) { of.arrange_rows(arranged, part); }, task_);
}

int64_t FusedLinear::private_bytes() const {
  return std::visit([&](const auto& of) { return of.private_bytes() + (arranges_alone_ ? own_bytes(of) : 0); }, task_);
}

std::span<const std::byte> FusedLinear::first_weights(Part part) const {
  return std::visit([&](const auto& of) { return of.first_weights(part); }, task_);
}

void FusedLinear::run(const std::byte* arranged, std::byte* private_scratch, Part part) {
  std::visit(
      [&](const auto& of) {
        if (arranges_alone_) {
          fill_own_rows(of, make_row_, private_scratch);
          arranged = private_scratch;
          private_scratch += own_bytes(of);
        }
        const Strips own = of.share(part);
        if (shares_.workers() != part.workers || !of.has_panels_to_steal(part.workers)) {
          return run_strips(of, arranged, private_scratch, own);
        }
        shares_.open(part, {own.begin / kPanelStrips, (own.end + kPanelStrips - 1) / kPanelStrips});
        for (Share panels = shares_.take(part); panels.begin < panels.end; panels = shares_.take(part)) {
          run_strips(of, arranged, private_scratch,
                     {panels.begin * kPanelStrips, std::min(panels.end * kPanelStrips, of.strips())});
        }
      },
      task_);
}

template <typename Task>
void FusedLinear::run_strips(const Task& task, const std::byte* arranged, std::byte* scratch, Strips strips) const {
  task.run(arranged, scratch, strips);
  const int64_t columns = task.weight.packing.n / (task.has_halves ? 2 : 1);
  const Range of{std::min(strips.begin * kStrip, columns), std::min(strips.end * kStrip, columns)};
  if (of.size() <= 0) return;
  for (const auto& tail : tails_) tail(of);
}

}  // namespace lockstep::cpu
