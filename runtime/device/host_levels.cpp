#include "runtime/device/host_levels.h"

#include <algorithm>

#include "runtime/core/check.h"

namespace lockstep::device {
namespace {

constexpr int kSeveral = -1;  // of an accumulator filled by several hosts

/// The accumulators of the whole sum after all additions within hosts.
struct Division {
  std::vector<int> host_of;              // [roots]: the host of its sum, or kSeveral
  std::vector<bool> is_brought;          // [roots]: holds a sum that its host sends
  std::vector<TreeFinish::Step> within;  // of all hosts, in order
  std::vector<TreeFinish::Step> between;
};

Division divide_steps(const TreeFinish& finish, const Hosts& hosts) {
  Division division;
  for (int rank = 0; rank < hosts.ranks(); ++rank) {
    division.host_of.resize(static_cast<size_t>(finish.first_root[rank + 1]), hosts.host_of[rank]);
  }
  division.is_brought.assign(division.host_of.size(), true);
  std::vector<int> holder = division.host_of;  // becomes kSeveral during the pass
  for (const TreeFinish::Step& step : finish.steps) {
    const bool alone = holder[step.dst] != kSeveral && holder[step.dst] == holder[step.src];
    (alone ? division.within : division.between).push_back(step);
    if (alone) {
      division.is_brought[step.src] = false;
    } else {
      holder[step.dst] = kSeveral;
    }
  }
  return division;
}

/// The additions that lead to accumulator `result`, among `steps`, with accumulators renumbered.
TreeFinish sum_of(int result, const std::vector<TreeFinish::Step>& steps, const std::vector<int>& number,
                  std::vector<int> first_root) {
  TreeFinish sum{.first_root = std::move(first_root), .steps = {}, .result = number[result]};
  std::vector<bool> leads(number.size(), false);  // to the result
  leads[result] = true;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (!leads[step->dst]) continue;
    leads[step->src] = true;
    sum.steps.push_back({number[step->dst], number[step->src]});
  }
  std::reverse(sum.steps.begin(), sum.steps.end());
  return sum;
}

/// The roots of one host's ranks, numbered rank by rank; −1 for those of others.
struct LocalRoots {
  std::vector<int> number;      // [roots of all]
  std::vector<int> first_root;  // [ranks of the host + 1]
};

LocalRoots local_roots(const TreeFinish& finish, const Host& host) {
  LocalRoots local{.number = std::vector<int>(static_cast<size_t>(finish.roots()), -1), .first_root = {0}};
  int next = 0;
  for (const int rank : host.ranks) {
    for (int root = finish.first_root[rank]; root < finish.first_root[rank + 1]; ++root) local.number[root] = next++;
    local.first_root.push_back(next);
  }
  return local;
}

int most_in_a_row(const std::vector<int>& first_root) {
  int most = 1;
  for (size_t i = 0; i + 1 < first_root.size(); ++i) most = std::max(most, first_root[i + 1] - first_root[i]);
  return most;
}

}  // namespace

HostLevels divide_between_hosts(const TreeFinish& finish, const Hosts& hosts, int host) {
  LOCKSTEP_CHECK(static_cast<int>(finish.first_root.size()) == hosts.ranks() + 1, finish.first_root.size(),
                 hosts.ranks());
  const Division division = divide_steps(finish, hosts);
  const LocalRoots local = local_roots(finish, hosts.hosts[static_cast<size_t>(host)]);
  HostLevels levels;
  std::vector<int> brought(division.host_of.size(), -1);  // numbered host by host
  std::vector<int> first_brought = {0};
  int next = 0;
  for (int h = 0; h < hosts.count(); ++h) {
    for (size_t root = 0; root < brought.size(); ++root) {
      if (division.host_of[root] != h || !division.is_brought[root]) continue;
      brought[root] = next++;
      if (h != host) continue;
      levels.within.push_back(sum_of(static_cast<int>(root), division.within, local.number, local.first_root));
    }
    first_brought.push_back(next);
  }
  levels.between = sum_of(finish.result, division.between, brought, first_brought);
  levels.most_roots = std::max(most_in_a_row(finish.first_root), most_in_a_row(first_brought));
  return levels;
}

}  // namespace lockstep::device
