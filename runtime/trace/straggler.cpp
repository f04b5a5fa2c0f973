#include "runtime/trace/straggler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::trace {
namespace {

constexpr double kDear = 0.05;  // of a phase's time; a smaller cost is not reported

/// The median (the upper one of an even number). Reorders.
Duration middle(std::vector<Duration>& values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

/// Adds the entries of one collective, by rank; `sorted` is scratch of the same size.
void count(std::span<const TimePoint> entries, std::vector<TimePoint>& sorted, Arrivals& arrivals,
           std::vector<std::vector<Duration>>& lateness) {
  std::ranges::copy(entries, sorted.begin());
  std::ranges::sort(sorted);
  const TimePoint last = sorted.back(), before = sorted[sorted.size() - 2];
  const TimePoint median = sorted[(sorted.size() - 1) / 2];
  for (size_t rank = 0; rank < entries.size(); ++rank) {
    lateness[rank].push_back(entries[rank] - median);
    if (entries[rank] != last || last == before) continue;
    ++arrivals.ranks[rank].last;
    arrivals.ranks[rank].cost += last - before;
  }
}

/// "it runs on cores 0,1, which rank 0 has too".
std::string cores_of(size_t slow, const std::vector<RankTimeline>& ranks) {
  const RankTimeline& rank = ranks[slow];
  if (rank.cores.empty()) return "";
  std::vector<int> sharers;
  for (const RankTimeline& other : ranks) {
    const auto is_shared = [&](int core) { return std::ranges::find(rank.cores, core) != rank.cores.end(); };
    if (other.rank != rank.rank && other.host == rank.host && std::ranges::any_of(other.cores, is_shared)) {
      sharers.push_back(other.rank);
    }
  }
  std::string text = fmt::format("; it runs on cores {}", fmt::join(rank.cores, ","));
  if (!sharers.empty()) {
    text += fmt::format(", of which {} {} {} some too", sharers.size() == 1 ? "rank" : "ranks",
                        fmt::join(sharers, ", "), sharers.size() == 1 ? "has" : "have");
  }
  return text;
}

}  // namespace

double Arrivals::last_share(size_t rank) const {
  return collectives > 0 ? static_cast<double>(ranks[rank].last) / static_cast<double>(collectives) : 0.0;
}

double Arrivals::cost_share(size_t rank) const {
  return time > Duration{} ? to_seconds(ranks[rank].cost) / to_seconds(time) : 0.0;
}

Arrivals arrivals_at(const std::vector<RankTimeline>& ranks, StepPhase phase) {
  Arrivals arrivals{.phase = phase, .time = ranks.front().steps_of(phase).time, .ranks = {}};
  arrivals.ranks.resize(ranks.size());
  if (ranks.size() < 2) return arrivals;
  size_t recorded = ranks.front().collectives.size();
  for (const RankTimeline& rank : ranks) recorded = std::min(recorded, rank.collectives.size());
  std::vector<TimePoint> entries(ranks.size()), sorted(ranks.size());
  std::vector<std::vector<Duration>> lateness(ranks.size());
  for (size_t i = 0; i < recorded; ++i) {
    if (ranks.front().collectives[i].phase != phase) continue;
    for (size_t rank = 0; rank < ranks.size(); ++rank) entries[rank] = ranks[rank].collectives[i].enter;
    count(entries, sorted, arrivals, lateness);
    ++arrivals.collectives;
  }
  if (arrivals.collectives == 0) return arrivals;
  for (size_t rank = 0; rank < ranks.size(); ++rank) arrivals.ranks[rank].median_lateness = middle(lateness[rank]);
  return arrivals;
}

std::optional<size_t> straggler(const Arrivals& arrivals) {
  if (arrivals.ranks.size() < 2 || arrivals.collectives == 0) return std::nullopt;
  const double fair = 1.0 / static_cast<double>(arrivals.ranks.size());
  for (size_t rank = 0; rank < arrivals.ranks.size(); ++rank) {
    if (arrivals.last_share(rank) >= (1.0 + fair) / 2 && arrivals.cost_share(rank) >= kDear) return rank;
  }
  return std::nullopt;
}

std::string verdict(const Arrivals& arrivals, const std::vector<RankTimeline>& ranks) {
  const auto slow = straggler(arrivals);
  if (!slow) return "";
  return fmt::format(
      "rank {} ({}) came last to {:.0f} % of the collectives of {} and cost the others {:.0f} % of its time{}",
      ranks[*slow].rank, ranks[*slow].host, 100 * arrivals.last_share(*slow), to_string(arrivals.phase),
      100 * arrivals.cost_share(*slow), cores_of(*slow, ranks));
}

}  // namespace lockstep::trace
