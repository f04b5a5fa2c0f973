// Lowering of what ranks do together.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cuda/lowering.h"
#include "runtime/backends/cuda/sum_parts.h"

namespace lockstep::cuda {

ElementType Lowering::element_type(DType dtype) {
  if (dtype == DType::kFloat32) return kF32;
  return dtype == DType::kBFloat16 ? kBf16 : kF16;
}

/// The blocks of a sum.
int64_t Lowering::blocks_of(int64_t elements) {
  constexpr int64_t kElementsOfBlock = 2048;
  return (elements + kElementsOfBlock - 1) / kElementsOfBlock;
}

uint64_t Lowering::area(int rank, uint32_t exchange) const {
  const auto at = static_cast<size_t>(rank);
  return bases_.areas[at] + static_cast<uint64_t>(flag_bytes(graph_.ranks) + (exchange % 2) * bases_.halves[at]);
}

/// The meeting of the host's ranks: in a group on several hosts the first of an exchange shows the host's parts, the
/// second those of all hosts.
Meeting Lowering::next_meeting() {
  const bool brings_others = spans_hosts() && exchange_ % 2 == 1;
  const size_t missing = brings_others ? offsetof(Control, missing_others) : offsetof(Control, missing);
  Meeting meeting{.flags = {},
                  .step = reinterpret_cast<const uint32_t*>(bases_.head + offsetof(HeadWords, step)),
                  .abort = reinterpret_cast<const uint32_t*>(bases_.control + offsetof(Control, abort)),
                  .missing = reinterpret_cast<uint32_t*>(bases_.control + missing),
                  .patience = bases_.patience,
                  .ranks = static_cast<int32_t>(ranks_of_host().size()),
                  .rank = hosts_.local_of[static_cast<size_t>(graph_.rank)],
                  .meetings = plan_.exchanges,
                  .index = exchange_++};
  for (size_t i = 0; i < ranks_of_host().size(); ++i) {
    meeting.flags[i] = reinterpret_cast<uint32_t*>(bases_.areas[static_cast<size_t>(ranks_of_host()[i])]);
  }
  return meeting;
}

uint32_t Lowering::exchanges_of(const Node& node) const {
  using graph::Op;
  const bool is_sum = node.op == Op::kAllReduce;
  if (!is_sum && node.op != Op::kAllGather && node.op != Op::kRowsOfOwners) return 0;
  if (spans_hosts()) return 2;
  return is_sum && graph_.value(*node.result).type.bytes() > options_.most_one_shot_bytes ? 2 : 1;
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
                           .y_type = element_type(y.dtype),
                           .is_even = is_even_tree(finish) && y.columns % 4 == 0};
  const int64_t blocks = blocks_of(y.rows * y.columns);
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
  if (spans_hosts()) {
    sum_over_hosts(finish, residual, y);
    return ok();
  }
  for (int rank = 0; rank < graph_.ranks; ++rank) {
    parameters.roots[rank] = reinterpret_cast<const float*>(area(rank, exchange_));
  }
  parameters.meeting = next_meeting();
  const BlockShape shape{.threads = {}, .shared_bytes = shared_bytes, .waits = true};
  if (exchanges_of(node) == 1) {
    emit("sum_of_ranks", parameters, waiting_blocks(blocks), shape);
  } else {
    SlicedSumParameters sliced{.sum = parameters, .slices = {}};
    for (int rank = 0; rank < graph_.ranks; ++rank) {
      sliced.slices[rank] = reinterpret_cast<void*>(area(rank, exchange_));
    }
    ++exchange_;
    plan_.half_bytes = std::max(plan_.half_bytes, y.rows * y.columns * y.element_size());
    emit("sum_in_slices", sliced, waiting_blocks(blocks), shape);
  }
  return ok();
}

void Lowering::lower_all_gather(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  if (graph_.ranks == 1) return copy_rows(x, y);
  if (spans_hosts()) return gather_over_hosts(node);
  std::vector<GatherPiece> pieces;
  int64_t columns = 0;
  for (const int64_t part : node.integers("parts")) {
    pieces.push_back({.from = 0,
                      .from_stride = part,
                      .to = columns,
                      .to_stride = y.stride,
                      .rank = static_cast<int32_t>(pieces.size()),
                      .columns = static_cast<int32_t>(part)});
    columns += part;
  }
  GatherParameters parameters{.meeting = {},
                              .areas = {},
                              .x = x.data(),
                              .y = y.data(),
                              .pieces = table(std::span<const GatherPiece>(pieces)),
                              .x_stride = x.stride,
                              .rows = rows_of(y),
                              .own = static_cast<int32_t>(x.columns),
                              .count = static_cast<int32_t>(pieces.size())};
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
                                        .otherwise = -1,
                                        .columns = static_cast<int32_t>(y.columns)};
    emit(sized("take_rows", y.dtype), parameters, y.rows);
    return;
  }
  if (spans_hosts()) return owners_over_hosts(node);
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
                              .own = graph_.rank,
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
