#include "shards/cost/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace lockstep::cost {
namespace {

const LinkRow& row_for(const Link& link, double bytes) {
  for (const LinkRow& row : link.rows) {
    if (bytes <= static_cast<double>(row.bytes)) return row;
  }
  return link.rows.back();
}

double rounds_of(int ranks) { return std::ceil(std::log2(static_cast<double>(ranks))); }

double exchange_seconds(const LinkRow& row, int ranks, double received) {
  return row.latency_s * rounds_of(ranks) + received / row.bytes_per_s;
}

Error invalid(std::string_view what, double found) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[shards/cost] cannot describe the machine: found {} {}, expected more than 0", what, found)};
}

double sent_by(const Collective& c, int64_t rows) { return c.row_bytes * static_cast<double>(rows) + c.step_bytes; }

double result_of(const Collective& c, int64_t rows) {
  return c.result_row_bytes * static_cast<double>(rows) + c.result_step_bytes;
}

/// The collective of ranks that one link connects.
double seconds_over(const Link& link, std::span<const Collective> by_rank, int64_t rows) {
  const int ranks = static_cast<int>(by_rank.size());
  if (ranks < 2) return 0;
  double all = 0, least = sent_by(by_rank.front(), rows), most = 0;
  for (const Collective& collective : by_rank) {
    all += sent_by(collective, rows);
    least = std::min(least, sent_by(collective, rows));
    most = std::max(most, sent_by(collective, rows));
  }
  const double received = all - least;  // of the rank that receives most
  const LinkRow& row = row_for(link, most);
  const double at_once = exchange_seconds(row, ranks, received);
  const Collective& any = by_rank.front();
  if (any.kind != CollectiveKind::kAllReduce) return at_once;
  const auto count = static_cast<double>(ranks);
  const double sliced = exchange_seconds(row, ranks, received / count) +
                        exchange_seconds(row, ranks, result_of(any, rows) * (count - 1) / count);
  return std::min(at_once, sliced);
}

/// What a host contributes: the result of a sum, or the parts of its ranks.
double sent_by_host(std::span<const Collective> of_host, int64_t rows) {
  if (of_host.front().kind == CollectiveKind::kAllReduce) return result_of(of_host.front(), rows);
  double parts = 0;
  for (const Collective& collective : of_host) parts += sent_by(collective, rows);
  return parts;
}

/// Bytes that a rank receives for an all-reduce of `bytes` and an all-gather with that result.
double received_for(const LinkMeasurement& measured, int ranks) {
  const auto others = static_cast<double>(ranks - 1);
  return static_cast<double>(measured.bytes) * (others + others / static_cast<double>(ranks));
}

}  // namespace

Link link_from(const std::vector<LinkMeasurement>& measured, int ranks) {
  constexpr double kOperations = 2;  // of a measurement
  Link link;
  for (size_t i = 0; i < measured.size(); ++i) {
    LinkRow row;
    // A line through this point and the one below (above, for the first); a flat or falling line is latency only.
    const size_t other = i > 0 ? i - 1 : std::min<size_t>(1, measured.size() - 1);
    const double bytes = received_for(measured[i], ranks) - received_for(measured[other], ranks);
    const double seconds = measured[i].seconds - measured[other].seconds;
    double both = measured[i].seconds;
    if (bytes * seconds > 0) {
      row.bytes_per_s = bytes / seconds;
      const double rest = both - received_for(measured[i], ranks) / row.bytes_per_s;
      if (rest < 0) row.bytes_per_s = received_for(measured[i], ranks) / both;
      both = std::max(rest, 0.0);
    }
    row.latency_s = both / kOperations / rounds_of(ranks);
    row.bytes = measured[i].bytes;
    link.rows.push_back(row);
  }
  return link;
}

Rates MachineLimits::of_each(int ranks) const {
  const int together = ranks_per_host == 0 ? ranks : std::min(ranks, ranks_per_host);
  return {std::min(rank.read_bytes_per_s, host.read_bytes_per_s / together),
          std::min(rank.flops_per_s, host.flops_per_s / together)};
}

Result<void> MachineLimits::validate() const {
  const Rates each = of_each(1);
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  if (!positive(each.read_bytes_per_s)) return invalid("bytes/s", each.read_bytes_per_s);
  if (!positive(each.flops_per_s)) return invalid("FLOP/s", each.flops_per_s);
  for (const Link* table : {&link, &between_hosts}) {
    for (const LinkRow& row : table->rows) {
      if (!(row.latency_s >= 0)) return invalid("latency", row.latency_s);
      if (!(row.bytes_per_s > 0)) return invalid("bytes/s between ranks", row.bytes_per_s);
    }
  }
  if (link.rows.empty()) return invalid("lines for messages between ranks:", 0);
  return ok();
}

double collective_seconds(const MachineLimits& machine, const std::vector<Collective>& by_rank, int64_t rows) {
  const std::span<const Collective> all = by_rank;
  const auto host = static_cast<size_t>(machine.ranks_per_host);
  if (host == 0 || all.size() <= host || machine.between_hosts.rows.empty()) {
    return seconds_over(machine.link, all, rows);
  }
  double within = 0, sent = 0, least = 0, most = 0;
  int hosts = 0;
  for (size_t first = 0; first < all.size(); first += host, ++hosts) {
    const std::span<const Collective> of_host = all.subspan(first, std::min(host, all.size() - first));
    within = std::max(within, seconds_over(machine.link, of_host, rows));
    const double part = sent_by_host(of_host, rows);
    least = hosts == 0 ? part : std::min(least, part);
    most = std::max(most, part);
    sent += part;
  }
  return within + exchange_seconds(row_for(machine.between_hosts, most), hosts, sent - least);
}

}  // namespace lockstep::cost
