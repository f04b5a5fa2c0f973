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

}  // namespace

/// The columns of a gather on each rail: a rank's are carried by the rail of its number, modulo the rails.
class Lowering::CarriedColumns {
 public:
  CarriedColumns(const device::Hosts& hosts, const std::vector<int64_t>& parts)
      : hosts_(hosts), parts_(parts), before_(parts.size()) {
    const std::vector<int64_t> none(static_cast<size_t>(hosts.count()), 0);
    of_hosts_.assign(static_cast<size_t>(hosts.rails()), none);
    for (int rank = 0; rank < hosts.ranks(); ++rank) {
      const auto at = static_cast<size_t>(rank);
      int64_t& columns = of_hosts_[static_cast<size_t>(rail_of(rank))][static_cast<size_t>(hosts.host_of[at])];
      before_[at] = columns;
      columns += parts[at];
    }
  }

  int rail_of(int rank) const { return hosts_.local_of[static_cast<size_t>(rank)] % hosts_.rails(); }
  int64_t part(int rank) const { return parts_[static_cast<size_t>(rank)]; }
  /// Columns of the same host and rail ahead of a rank's.
  int64_t before(int rank) const { return before_[static_cast<size_t>(rank)]; }
  /// Columns of each host on a rail.
  const std::vector<int64_t>& of_hosts(int rail) const { return of_hosts_[static_cast<size_t>(rail)]; }

 private:
  const device::Hosts& hosts_;
  const std::vector<int64_t>& parts_;
  std::vector<int64_t> before_;
  std::vector<std::vector<int64_t>> of_hosts_;  // [rails, hosts]
};

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

/// The columns that this rank's rail carries; none without a rail.
Range Lowering::own_columns(int64_t columns) const {
  if (!own_rail()) return {};
  const std::vector<int32_t> bounds = rail_bounds(columns);
  const auto rail = static_cast<size_t>(*own_rail());
  return {bounds[rail], bounds[rail + 1]};
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
  const int64_t plane = y.rows * own_columns(y.columns).size() * kFloat;
  const uint64_t sent = scratch(std::ssize(levels.within) * plane);
  sum_of_host(finish, levels, y, sent);

  std::vector<int64_t> bytes;
  for (int h = 0; h < hosts_.count(); ++h) {
    const auto at = static_cast<size_t>(h);
    bytes.push_back((levels.between.first_root[at + 1] - levels.between.first_root[at]) * plane);
  }
  gather_on_rail(sent, std::move(bytes));
  sum_of_hosts(levels.between, residual, y);
}

void Lowering::sum_of_host(const TreeFinish& finish, const device::HostLevels& levels, const Tensor& y, uint64_t sent) {
  const Range columns = own_columns(y.columns);
  HostSumParameters parameters{.meeting = {},
                               .roots = {},
                               .plan = nullptr,
                               .y = reinterpret_cast<float*>(sent),
                               .rows = rows_of(y),
                               .columns = static_cast<int32_t>(y.columns),
                               .begin = static_cast<int32_t>(columns.begin),
                               .end = static_cast<int32_t>(columns.end),
                               .additions = 0,
                               .sums = static_cast<int32_t>(levels.within.size())};
  std::vector<int32_t> plan = {0};
  for (size_t local = 0; local < ranks_of_host().size(); ++local) {
    const auto rank = static_cast<size_t>(ranks_of_host()[local]);
    parameters.roots[local] = reinterpret_cast<const float*>(area(ranks_of_host()[local], exchange_));
    plan.push_back(plan.back() + finish.first_root[rank + 1] - finish.first_root[rank]);
  }
  const int roots = plan.back();
  for (const TreeFinish& sum : levels.within) {
    append_pairs(plan, sum.steps);
    parameters.additions += static_cast<int32_t>(sum.steps.size());
  }
  for (const TreeFinish& sum : levels.within) plan.push_back(sum.result);
  parameters.plan = table(std::span<const int32_t>(plan));
  parameters.meeting = next_meeting();
  // The same blocks on every rank, because they meet: those of the widest rail.
  const int64_t widest = (y.columns + hosts_.rails() - 1) / hosts_.rails();
  emit("sum_of_host", parameters, waiting_blocks(blocks_of(y.rows * widest)), {.waits = true});
  plan_.launches.back().shape.shared_bytes = shared_bytes_of(roots);
}

void Lowering::sum_of_hosts(const TreeFinish& between, const void* residual, const Tensor& y) {
  HostsSumParameters parameters{.meeting = {},
                                .received = {},
                                .plan = nullptr,
                                .residual = residual,
                                .y = y.data(),
                                .rows = rows_of(y),
                                .columns = static_cast<int32_t>(y.columns),
                                .rails = hosts_.rails(),
                                .roots = between.roots(),
                                .additions = static_cast<int32_t>(between.steps.size()),
                                .result = between.result,
                                .y_type = element_type(y.dtype)};
  std::vector<int32_t> plan = rail_bounds(y.columns);
  append_pairs(plan, between.steps);
  parameters.plan = table(std::span<const int32_t>(plan));
  for (int rail = 0; rail < hosts_.rails(); ++rail) {
    parameters.received[rail] = reinterpret_cast<const float*>(area(rank_of_rail(rail), exchange_));
  }
  parameters.meeting = next_meeting();
  emit("sum_of_hosts", parameters, waiting_blocks(blocks_of(y.rows * y.columns)), {.waits = true});
  plan_.launches.back().shape.shared_bytes = shared_bytes_of(between.roots());
}

void Lowering::gather_over_hosts(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const CarriedColumns carried(hosts_, node.integers("parts"));
  std::vector<int64_t> bytes;
  if (own_rail()) {
    for (const int64_t columns : carried.of_hosts(*own_rail())) bytes.push_back(y.rows * columns * y.element_size());
  }
  const uint64_t sent = scratch(total(bytes));  // no less than the own host's
  GatherParameters within{.meeting = {},
                          .areas = {},
                          .x = x.data(),
                          .y = reinterpret_cast<void*>(sent),
                          .pieces = nullptr,
                          .x_stride = x.stride,
                          .rows = rows_of(y),
                          .own = static_cast<int32_t>(x.columns),
                          .count = 0};
  for (size_t i = 0; i < ranks_of_host().size(); ++i) {
    within.areas[i] = reinterpret_cast<void*>(area(ranks_of_host()[i], exchange_));
  }
  plan_.half_bytes = std::max(plan_.half_bytes, x.rows * x.columns * x.element_size());
  emit_gather(within, pieces_for_rail(carried, y.rows), y);

  gather_on_rail(sent, std::move(bytes));

  GatherParameters between = within;
  between.x = nullptr;
  between.y = y.data();
  for (int rail = 0; rail < hosts_.rails(); ++rail) {
    between.areas[rail] = reinterpret_cast<void*>(area(rank_of_rail(rail), exchange_));
  }
  emit_gather(between, pieces_of_rails(carried, y), y);
}

void Lowering::emit_gather(GatherParameters parameters, const std::vector<GatherPiece>& pieces, const Tensor& y) {
  parameters.pieces = table(std::span<const GatherPiece>(pieces));
  parameters.count = static_cast<int32_t>(pieces.size());
  parameters.meeting = next_meeting();
  emit(sized("gather", y.dtype), parameters, waiting_blocks(y.rows), {.waits = true});
}

/// What this rank's rail sends: columns of its host's ranks, one after the other.
std::vector<GatherPiece> Lowering::pieces_for_rail(const CarriedColumns& carried, int64_t rows) const {
  std::vector<GatherPiece> pieces;
  for (size_t local = 0; local < ranks_of_host().size(); ++local) {
    const int rank = ranks_of_host()[local];
    if (own_rail() != carried.rail_of(rank)) continue;
    pieces.push_back({.from = 0,
                      .from_stride = carried.part(rank),
                      .to = rows * carried.before(rank),
                      .to_stride = carried.part(rank),
                      .rank = static_cast<int32_t>(local),
                      .columns = static_cast<int32_t>(carried.part(rank))});
  }
  return pieces;
}

/// All ranks' columns, from what the rails received: host after host.
std::vector<GatherPiece> Lowering::pieces_of_rails(const CarriedColumns& carried, const Tensor& y) const {
  std::vector<GatherPiece> pieces;
  int64_t to = 0;
  for (int rank = 0; rank < graph_.ranks; ++rank) {
    const int rail = carried.rail_of(rank);
    int64_t before = carried.before(rank);
    for (int host = 0; host < hosts_.host_of[static_cast<size_t>(rank)]; ++host) {
      before += carried.of_hosts(rail)[static_cast<size_t>(host)];
    }
    pieces.push_back({.from = y.rows * before,
                      .from_stride = carried.part(rank),
                      .to = to,
                      .to_stride = y.stride,
                      .rank = rail,
                      .columns = static_cast<int32_t>(carried.part(rank))});
    to += carried.part(rank);
  }
  return pieces;
}

void Lowering::owners_over_hosts(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& slot = operand(node, 1);
  const Range columns = own_columns(x.columns);
  const int64_t bytes = x.rows * columns.size() * x.element_size();
  const uint64_t sent = scratch(bytes);
  OwnersParameters parameters{.meeting = {},
                              .areas = {},
                              .x = x.data(),
                              .y = reinterpret_cast<void*>(sent),
                              .slot = slot.as<int32_t>(),
                              .x_stride = x.stride,
                              .y_stride = columns.size(),
                              .rows = rows_of(result(node)),
                              .own = graph_.rank,
                              .slots = static_cast<int32_t>(node.integer("slots")),
                              .columns = static_cast<int32_t>(x.columns),
                              .first_kept = static_cast<int32_t>(columns.begin),
                              .kept = static_cast<int32_t>(columns.size())};
  plan_.half_bytes = std::max(plan_.half_bytes, x.rows * x.columns * x.element_size());
  for (const int rank : ranks_of_host()) parameters.areas[rank] = reinterpret_cast<void*>(area(rank, exchange_));
  parameters.meeting = next_meeting();
  emit(sized("rows_of_owners", x.dtype), parameters, waiting_blocks(x.rows), {.waits = true});
  gather_on_rail(sent, std::vector<int64_t>(static_cast<size_t>(hosts_.count()), bytes));
  owners_of_hosts(node);
}

void Lowering::owners_of_hosts(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const std::vector<int64_t>& parts = node.integers("parts");
  std::vector<int32_t> plan = rail_bounds(x.columns);
  plan.insert(plan.end(), hosts_.host_of.begin(), hosts_.host_of.end());
  HostsOwnersParameters parameters{.meeting = {},
                                   .received = {},
                                   .plan = table(std::span<const int32_t>(plan)),
                                   .y = y.data(),
                                   .slot = operand(node, 1).as<int32_t>(),
                                   .y_stride = y.stride,
                                   .rows = rows_of(y),
                                   .slots = static_cast<int32_t>(node.integer("slots")),
                                   .ranks = graph_.ranks,
                                   .rails = hosts_.rails(),
                                   .first_kept = 0,
                                   .kept = static_cast<int32_t>(y.columns)};
  for (int rank = 0; rank < graph_.rank; ++rank) {
    parameters.first_kept += static_cast<int32_t>(parts[static_cast<size_t>(rank)]);
  }
  for (int rail = 0; rail < hosts_.rails(); ++rail) {
    parameters.received[rail] = reinterpret_cast<const void*>(area(rank_of_rail(rail), exchange_));
  }
  parameters.meeting = next_meeting();
  emit(sized("owners_of_hosts", y.dtype), parameters, waiting_blocks(y.rows), {.waits = true});
}

}  // namespace lockstep::cuda
