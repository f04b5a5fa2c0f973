#include "engine/observe/rank_cores.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/observe/gathered_numbers.h"

namespace lockstep {
namespace {

constexpr double kWorthMentioning = 0.05;  // of the time

double share_of_time(const RankCores& rank, double seconds) {
  return rank.seconds > 0.0 ? seconds / rank.seconds : 0.0;
}

double lost_share(const RankCores& rank) { return share_of_time(rank, std::max(rank.waited_s, rank.stolen_s)); }

}  // namespace

std::string words_of_losses(const std::vector<RankCores>& ranks) {
  const auto most = std::ranges::max_element(ranks, {}, lost_share);
  if (most == ranks.end() || lost_share(*most) < kWorthMentioning) return {};
  std::string words = fmt::format("rank {} waited {:.0f} % of the time for a core ({} preemptions)",
                                  most - ranks.begin(), 100 * share_of_time(*most, most->waited_s), most->preemptions);
  if (share_of_time(*most, most->stolen_s) >= kWorthMentioning) {
    words +=
        fmt::format(", and its machine lost {:.0f} % to other machines", 100 * share_of_time(*most, most->stolen_s));
  }
  return words + "; other programs use its cores, so the run was slow";
}

namespace observe {

Result<std::vector<RankCores>> gather_cores(group::Member& member, const process::CoreWatch& watch) {
  const process::CoreLosses lost = watch.losses();
  return gather_numbers(member, RankCores{.seconds = to_seconds(lost.time),
                                          .waited_s = to_seconds(lost.waited),
                                          .preemptions = lost.preemptions,
                                          .stolen_s = to_seconds(lost.stolen)});
}

}  // namespace observe
}  // namespace lockstep
