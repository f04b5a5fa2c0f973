// Lowering of what ranks do together.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cuda/lowering.h"

namespace lockstep::cuda {
namespace {

ElementType element_type(DType dtype) {
  if (dtype == DType::kFloat32) return kF32;
  return dtype == DType::kBFloat16 ? kBf16 : kF16;
}

constexpr int64_t kElementsOfBlock = 2048;

}  // namespace

uint64_t Lowering::area(int rank, uint32_t exchange) const {
  const auto at = static_cast<size_t>(rank);
  return bases_.areas[at] + static_cast<uint64_t>(flag_bytes(graph_.ranks) + (exchange % 2) * bases_.halves[at]);
}

Meeting Lowering::next_meeting() {
  Meeting meeting{.flags = {},
                  .step = reinterpret_cast<const uint32_t*>(bases_.head + offsetof(HeadWords, step)),
                  .abort = reinterpret_cast<const uint32_t*>(bases_.control + offsetof(Control, abort)),
                  .missing = reinterpret_cast<uint32_t*>(bases_.control + offsetof(Control, missing)),
                  .patience = bases_.patience,
                  .ranks = graph_.ranks,
                  .rank = graph_.rank,
                  .meetings = plan_.exchanges,
                  .index = exchange_++};
  for (int rank = 0; rank < graph_.ranks; ++rank) {
    meeting.flags[rank] = reinterpret_cast<uint32_t*>(bases_.areas[static_cast<size_t>(rank)]);
  }
  return meeting;
}

int Lowering::waiting_blocks(int64_t wanted) const {
  return static_cast<int>(std::clamp<int64_t>(wanted, 1, bases_.blocks));
}

Result<void> Lowering::lower_all_reduce(const Node& node) {
  const Tensor& partial = operand(node, 0);
  const Node& last = last_of_launch(node);
  const void* residual = &last == &node ? nullptr : operand(last, last.operands[0] == *node.result ? 1 : 0).data();
  const Tensor& y = result(last);
  const TreeFinish finish = plan_finish(BlockSplit{node.integers("blocks")});
  if (finish.roots() > kMostRoots) {
    return unsupported(fmt::format("found a sum of {} roots, expected at most {}", finish.roots(), kMostRoots));
  }
  std::vector<int32_t> plan(finish.first_root.begin(), finish.first_root.end());
  for (const TreeFinish::Step& step : finish.steps) plan.insert(plan.end(), {step.dst, step.src});
  SumParameters parameters{.meeting = {},
                           .roots = {},
                           .plan = table(std::span<const int32_t>(plan)),
                           .residual = residual,
                           .y = y.data(),
                           .rows = rows_of(y),
                           .columns = static_cast<int32_t>(y.columns),
                           .additions = static_cast<int32_t>(finish.steps.size()),
                           .result = finish.result,
                           .y_type = element_type(y.dtype)};
  const int64_t blocks = (y.rows * y.columns + kElementsOfBlock - 1) / kElementsOfBlock;
  const int64_t shared_bytes = int64_t{finish.roots()} * kMeetThreads * static_cast<int64_t>(sizeof(float));
  if (graph_.ranks == 1) {
    parameters.meeting.ranks = 1;
    parameters.roots[0] = partial.as<float>();
    emit("sum_of_roots", parameters, blocks, {.shared_bytes = shared_bytes});
    return ok();
  }
  const auto maker = flow_.maker(node.operands[0]);
  if (!maker || !is_area_root(graph_.nodes[*maker])) {
    Tensor place = partial;
    place.address = area(graph_.rank, exchange_);
    plan_.half_bytes = std::max(plan_.half_bytes, partial.planes * partial.plane * 4);
    copy_rows(partial, place);
  }
  for (int rank = 0; rank < graph_.ranks; ++rank) {
    parameters.roots[rank] = reinterpret_cast<const float*>(area(rank, exchange_));
  }
  parameters.meeting = next_meeting();
  emit("sum_of_ranks", parameters, waiting_blocks(blocks), {.shared_bytes = shared_bytes, .waits = true});
  return ok();
}

void Lowering::lower_all_gather(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  if (graph_.ranks == 1) return copy_rows(x, y);
  std::vector<int32_t> bounds = {0};
  for (const int64_t part : node.integers("parts")) bounds.push_back(bounds.back() + static_cast<int32_t>(part));
  GatherParameters parameters{.meeting = {},
                              .areas = {},
                              .x = x.data(),
                              .y = y.data(),
                              .bounds = table(std::span<const int32_t>(bounds)),
                              .x_stride = x.stride,
                              .y_stride = y.stride,
                              .rows = rows_of(y)};
  plan_.half_bytes = std::max(plan_.half_bytes, x.rows * x.columns * x.element_size());
  for (int rank = 0; rank < graph_.ranks; ++rank) {
    parameters.areas[rank] = reinterpret_cast<void*>(area(rank, exchange_));
  }
  parameters.meeting = next_meeting();
  emit(sized("gather", y.dtype), parameters, waiting_blocks(y.rows), {.waits = true});
}

void Lowering::lower_owners(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& slot = operand(node, 1);
  const Tensor& y = result(node);
  if (graph_.ranks == 1) {
    const TakeRowsParameters parameters{.index = nullptr,
                                        .mask = slot.as<int32_t>(),
                                        .from = x.data(),
                                        .y = y.data(),
                                        .from_stride = x.stride,
                                        .y_stride = y.stride,
                                        .rows = rows_of(y),
                                        .offset = 0,
                                        .from_rows = static_cast<int32_t>(x.rows),
                                        .columns = static_cast<int32_t>(y.columns)};
    emit(sized("take_rows", y.dtype), parameters, y.rows);
    return;
  }
  const std::vector<int64_t>& parts = node.integers("parts");
  int64_t first = 0;
  for (int rank = 0; rank < graph_.rank; ++rank) first += parts[static_cast<size_t>(rank)];
  OwnersParameters parameters{.meeting = {},
                              .areas = {},
                              .x = x.data(),
                              .y = y.data(),
                              .slot = slot.as<int32_t>(),
                              .x_stride = x.stride,
                              .y_stride = y.stride,
                              .rows = rows_of(y),
                              .slots = static_cast<int32_t>(node.integer("slots")),
                              .columns = static_cast<int32_t>(x.columns),
                              .first_kept = static_cast<int32_t>(first),
                              .kept = static_cast<int32_t>(y.columns)};
  plan_.half_bytes = std::max(plan_.half_bytes, x.rows * x.columns * x.element_size());
  for (int rank = 0; rank < graph_.ranks; ++rank) {
    parameters.areas[rank] = reinterpret_cast<void*>(area(rank, exchange_));
  }
  parameters.meeting = next_meeting();
  emit(sized("rows_of_owners", y.dtype), parameters, waiting_blocks(y.rows), {.waits = true});
}

/// With an odd number of exchanges a step would begin in the half with which the one before ended.
void Lowering::finish_exchanges() {
  if (exchange_ == plan_.exchanges) return;
  const std::vector<int32_t> plan(static_cast<size_t>(graph_.ranks + 1), 0);
  SumParameters parameters{};
  parameters.plan = table(std::span<const int32_t>(plan));
  parameters.meeting = next_meeting();
  emit("sum_of_ranks", parameters, 1, {.waits = true});
}

}  // namespace lockstep::cuda
