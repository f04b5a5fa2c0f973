// Lowering of what ranks on several hosts do together. A rail is one rank of every host, those with the same number on
// it, as many as the smallest host has ranks; each rail carries its share of the columns.
//
//   host a: ranks 0 1     ranks meet │ what the host can make alone, of the rail's columns ─┐
//                                    │                                     all_gather on rails 0 and 1
//   host b: ranks 2 3     ranks meet │ what the host can make alone, of the rail's columns ─┘
//                         ranks meet │ each rank makes the result of what its host's rails received
//
// Half 0 of the memory that the host's ranks see shows their parts, half 1 what the rails received. A rank that has
// passed a meeting knows that the others are done with the other half.
#include <algorithm>

#include "runtime/backends/cuda/lowering.h"
#include "runtime/device/host_levels.h"

namespace lockstep::cuda {
namespace {

constexpr int64_t kFloat = sizeof(float);

int64_t shared_bytes_of(int roots) { return int64_t{roots} * kMeetThreads * kFloat; }

int64_t total(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

void append_pairs(std::vector<int32_t>& plan, const std::vector<TreeFinish::Step>& steps) {
  for (const TreeFinish::Step& step : steps) plan.insert(plan.end(), {step.dst, step.src});
}

/// The columns of a gather on each rail: a rank's are carried by the rail of its number, modulo the rails.
class CarriedColumns {
 public:
  CarriedColumns(const device::Hosts& hosts, const std::vector<int64_t>& parts)
      : rails_(hosts.rails()), before_(parts.size()) {
    of_host_.assign(static_cast<size_t>(rails_), std::vector<int64_t>(static_cast<size_t>(hosts.count()), 0));
    for (int host = 0; host < hosts.count(); ++host) {
      const std::vector<int>& ranks = hosts.hosts[static_cast<size_t>(host)].ranks;
      for (size_t local = 0; local < ranks.size(); ++local) {
        const auto rank = static_cast<size_t>(ranks[local]);
        int64_t& columns = of_host_[local % static_cast<size_t>(rails_)][static_cast<size_t>(host)];
        before_[rank] = columns;
        columns += parts[rank];
      }
    }
  }

  int rail_of(int local) const { return local % rails_; }
  /// Columns of each host on a rail.
  const std::vector<int64_t>& of_hosts(int rail) const { return of_host_[static_cast<size_t>(rail)]; }
  /// Columns of the same host and rail ahead of a rank's.
  int64_t before(int rank) const { return before_[static_cast<size_t>(rank)]; }

 private:
  int rails_;
  std::vector<int64_t> before_;
  std::vector<std::vector<int64_t>> of_host_;  // [rails, hosts]
};

}  // namespace

std::optional<int> Lowering::own_rail() const {
  const int local = hosts_.local_of[static_cast<size_t>(graph_.rank)];
  return local < hosts_.rails() ? std::optional(local) : std::nullopt;
}

std::vector<int32_t> Lowering::rail_bounds(int64_t columns) const {
  std::vector<int32_t> bounds;
  for (int rail = 0; rail <= hosts_.rails(); ++rail) {
    bounds.push_back(static_cast<int32_t>(columns * rail / hosts_.rails()));
  }
  return bounds;
}

/// Between the two meetings of an exchange.
void Lowering::gather_on_rail(uint64_t from, std::vector<int64_t> bytes) {
  plan_.half_bytes = std::max(plan_.half_bytes, total(bytes));
  if (total(bytes) == 0) return;
  plan_.gathers.push_back({plan_.launches.size(), from, std::move(bytes), area(graph_.rank, exchange_)});
}

void Lowering::sum_over_hosts(const TreeFinish& finish, const void* residual, const Tensor& y) {
  const int host = hosts_.host_of[static_cast<size_t>(graph_.rank)];
  const device::HostLevels levels = device::divide_between_hosts(finish, hosts_, host);
  const std::vector<int32_t> bounds = rail_bounds(y.columns);
  const int64_t widest = (y.columns + hosts_.rails() - 1) / hosts_.rails();
  HostSumParameters within{.meeting = {},
                           .roots = {},
                           .plan = nullptr,
                           .y = nullptr,
                           .rows = rows_of(y),
                           .columns = static_cast<int32_t>(y.columns),
                           .begin = own_rail() ? bounds[static_cast<size_t>(*own_rail())] : 0,
                           .end = own_rail() ? bounds[static_cast<size_t>(*own_rail()) + 1] : 0,
                           .additions = 0,
                           .sums = static_cast<int32_t>(levels.within.size())};
  std::vector<int32_t> plan = {0};
  for (size_t local = 0; local < ranks_of_host().size(); ++local) {
    const auto rank = static_cast<size_t>(ranks_of_host()[local]);
    within.roots[local] = reinterpret_cast<const float*>(area(ranks_of_host()[local], exchange_));
    plan.push_back(plan.back() + finish.first_root[rank + 1] - finish.first_root[rank]);
  }
  const int roots = plan.back();
  for (const TreeFinish& sum : levels.within) {
    append_pairs(plan, sum.steps);
    within.additions += static_cast<int32_t>(sum.steps.size());
  }
  for (const TreeFinish& sum : levels.within) plan.push_back(sum.result);
  within.plan = table(std::span<const int32_t>(plan));
  const int64_t plane = y.rows * (within.end - within.begin) * kFloat;
  const uint64_t sent = scratch(within.sums * plane);
  within.y = reinterpret_cast<float*>(sent);
  within.meeting = next_meeting();
  emit("sum_of_host", within, waiting_blocks(blocks_of(y.rows * widest)), /*waits=*/true);
  plan_.launches.back().shape.shared_bytes = shared_bytes_of(roots);

  std::vector<int64_t> bytes;
  for (int h = 0; h < hosts_.count(); ++h) {
    const auto at = static_cast<size_t>(h);
    bytes.push_back((levels.between.first_root[at + 1] - levels.between.first_root[at]) * plane);
  }
  gather_on_rail(sent, std::move(bytes));

  HostsSumParameters between{.meeting = {},
                             .received = {},
                             .plan = nullptr,
                             .residual = residual,
                             .y = y.data(),
                             .rows = rows_of(y),
                             .columns = static_cast<int32_t>(y.columns),
                             .rails = hosts_.rails(),
                             .roots = levels.between.roots(),
                             .additions = static_cast<int32_t>(levels.between.steps.size()),
                             .result = levels.between.result,
                             .y_type = element_type(y.dtype)};
  std::vector<int32_t> between_plan = bounds;
  append_pairs(between_plan, levels.between.steps);
  between.plan = table(std::span<const int32_t>(between_plan));
  for (int rail = 0; rail < hosts_.rails(); ++rail) {
    between.received[rail] = reinterpret_cast<const float*>(area(rank_of_rail(rail), exchange_));
  }
  between.meeting = next_meeting();
  emit("sum_of_hosts", between, waiting_blocks(blocks_of(y.rows * y.columns)), /*waits=*/true);
  plan_.launches.back().shape.shared_bytes = shared_bytes_of(between.roots);
}

void Lowering::gather_over_hosts(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const std::vector<int64_t>& parts = node.integers("parts");
  const CarriedColumns carried(hosts_, parts);
  const std::optional<int> own = own_rail();
  GatherParameters within{.meeting = {},
                          .areas = {},
                          .x = x.data(),
                          .y = nullptr,
                          .pieces = nullptr,
                          .x_stride = x.stride,
                          .rows = rows_of(y),
                          .own = static_cast<int32_t>(x.columns),
                          .count = 0};
  std::vector<GatherPiece> pieces;
  for (size_t local = 0; local < ranks_of_host().size(); ++local) {
    const int rank = ranks_of_host()[local];
    const int64_t columns = parts[static_cast<size_t>(rank)];
    within.areas[local] = reinterpret_cast<void*>(area(rank, exchange_));
    if (own != carried.rail_of(static_cast<int>(local))) continue;
    pieces.push_back({.from = 0,
                      .from_stride = columns,
                      .to = y.rows * carried.before(rank),
                      .to_stride = columns,
                      .rank = static_cast<int32_t>(local),
                      .columns = static_cast<int32_t>(columns)});
  }
  plan_.half_bytes = std::max(plan_.half_bytes, x.rows * x.columns * x.element_size());
  std::vector<int64_t> bytes;
  if (own) {
    for (const int64_t columns : carried.of_hosts(*own)) bytes.push_back(y.rows * columns * y.element_size());
  }
  const uint64_t sent = scratch(total(bytes));  // no less than the own host's
  within.y = reinterpret_cast<void*>(sent);
  within.pieces = table(std::span<const GatherPiece>(pieces));
  within.count = static_cast<int32_t>(pieces.size());
  within.meeting = next_meeting();
  emit(sized("gather", y.dtype), within, waiting_blocks(y.rows), /*waits=*/true);

  gather_on_rail(sent, std::move(bytes));

  GatherParameters between = within;
  between.x = nullptr;
  between.y = y.data();
  for (int rail = 0; rail < hosts_.rails(); ++rail) {
    between.areas[rail] = reinterpret_cast<void*>(area(rank_of_rail(rail), exchange_));
  }
  pieces.clear();
  int64_t to = 0;
  for (int rank = 0; rank < graph_.ranks; ++rank) {
    const auto at = static_cast<size_t>(rank);
    const int rail = carried.rail_of(hosts_.local_of[at]);
    int64_t before = carried.before(rank);
    for (int host = 0; host < hosts_.host_of[at]; ++host) before += carried.of_hosts(rail)[static_cast<size_t>(host)];
    pieces.push_back({.from = y.rows * before,
                      .from_stride = parts[at],
                      .to = to,
                      .to_stride = y.stride,
                      .rank = rail,
                      .columns = static_cast<int32_t>(parts[at])});
    to += parts[at];
  }
  between.pieces = table(std::span<const GatherPiece>(pieces));
  between.count = static_cast<int32_t>(pieces.size());
  between.meeting = next_meeting();
  emit(sized("gather", y.dtype), between, waiting_blocks(y.rows), /*waits=*/true);
}

void Lowering::owners_over_hosts(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& slot = operand(node, 1);
  const Tensor& y = result(node);
  const std::vector<int32_t> bounds = rail_bounds(x.columns);
  const int32_t begin = own_rail() ? bounds[static_cast<size_t>(*own_rail())] : 0;
  const int32_t width = own_rail() ? bounds[static_cast<size_t>(*own_rail()) + 1] - begin : 0;
  const int64_t bytes = x.rows * width * x.element_size();
  const uint64_t sent = scratch(bytes);
  OwnersParameters within{.meeting = {},
                          .areas = {},
                          .x = x.data(),
                          .y = reinterpret_cast<void*>(sent),
                          .slot = slot.as<int32_t>(),
                          .x_stride = x.stride,
                          .y_stride = width,
                          .rows = rows_of(y),
                          .own = graph_.rank,
                          .slots = static_cast<int32_t>(node.integer("slots")),
                          .columns = static_cast<int32_t>(x.columns),
                          .first_kept = begin,
                          .kept = width};
  plan_.half_bytes = std::max(plan_.half_bytes, x.rows * x.columns * x.element_size());
  for (const int rank : ranks_of_host()) within.areas[rank] = reinterpret_cast<void*>(area(rank, exchange_));
  within.meeting = next_meeting();
  emit(sized("rows_of_owners", y.dtype), within, waiting_blocks(y.rows), /*waits=*/true);

  gather_on_rail(sent, std::vector<int64_t>(static_cast<size_t>(hosts_.count()), bytes));

  std::vector<int32_t> plan = bounds;
  plan.insert(plan.end(), hosts_.host_of.begin(), hosts_.host_of.end());
  const std::vector<int64_t>& parts = node.integers("parts");
  HostsOwnersParameters between{.meeting = {},
                                .received = {},
                                .plan = table(std::span<const int32_t>(plan)),
                                .y = y.data(),
                                .slot = slot.as<int32_t>(),
                                .y_stride = y.stride,
                                .rows = rows_of(y),
                                .slots = within.slots,
                                .ranks = graph_.ranks,
                                .rails = hosts_.rails(),
                                .first_kept = 0,
                                .kept = static_cast<int32_t>(y.columns)};
  for (int rank = 0; rank < graph_.rank; ++rank) {
    between.first_kept += static_cast<int32_t>(parts[static_cast<size_t>(rank)]);
  }
  for (int rail = 0; rail < hosts_.rails(); ++rail) {
    between.received[rail] = reinterpret_cast<const void*>(area(rank_of_rail(rail), exchange_));
  }
  between.meeting = next_meeting();
  emit(sized("owners_of_hosts", y.dtype), between, waiting_blocks(y.rows), /*waits=*/true);
}

}  // namespace lockstep::cuda
