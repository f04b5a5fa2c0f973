#include "engine/group/placement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "transport/waiting.h"

namespace lockstep::group {
namespace {

using transport::Launcher;

constexpr size_t kMostRankLines = 16;  // limit of the table; more ranks get a line per host

/// The ranks of one host together.
struct HostLoad {
  std::string host;
  std::vector<const PlacedRank*> ranks;
  std::set<int> cores;     // cores that at least one rank may run on
  size_t core_places = 0;  // sum of the ranks' cores; shared cores count several times
  int available = 0;       // cores of the host that ranks could use
  int threads = 0;         // of all ranks

  int used() const { return static_cast<int>(cores.size()); }
  int idle() const { return std::max(0, available - used()); }
  int size() const { return static_cast<int>(ranks.size()); }
  bool is_shared() const { return core_places > cores.size(); }
};

std::vector<HostLoad> hosts_of(const Placement& placement) {
  std::map<int, HostLoad> loads;  // by node
  for (const PlacedRank& rank : placement.ranks) {
    HostLoad& load = loads[rank.place.node];
    load.host = rank.place.host;
    load.ranks.push_back(&rank);
    load.cores.insert(rank.place.cores.begin(), rank.place.cores.end());
    load.core_places += rank.place.cores.size();
    load.available = std::max(load.available, rank.place.host_cores);
    load.threads += rank.threads;
  }
  std::vector<HostLoad> hosts;
  for (auto& [node, load] : loads) {
    load.available = std::max(load.available, load.used());
    hosts.push_back(std::move(load));
  }
  return hosts;
}

/// "1 core", "4 cores".
std::string counted(int count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string more_cores_flag(Launcher launcher, int cores) {
  switch (launcher) {
    case Launcher::kOpenMpi: return fmt::format("mpirun --bind-to none, or mpirun --map-by slot:PE={}", cores);
    case Launcher::kPmi: return fmt::format("mpirun.mpich -bind-to none, or -bind-to core:{}", cores);
    case Launcher::kSlurm: return fmt::format("srun --cpus-per-task={} (or --cpu-bind=none)", cores);
    default:
      return fmt::format("give each rank {} (taskset, or the launcher's binding option)", counted(cores, "core"));
  }
}

std::string even_ranks_flag(Launcher launcher, int each) {
  switch (launcher) {
    case Launcher::kOpenMpi: return fmt::format("mpirun --map-by ppr:{}:node", each);
    case Launcher::kPmi: return fmt::format("mpirun.mpich -ppn {}", each);
    case Launcher::kSlurm: return fmt::format("srun --ntasks-per-node={}", each);
    default: return fmt::format("start {} on each host", counted(each, "rank"));
  }
}

std::string names_of(const HostLoad& load) {
  std::vector<int> ranks;
  for (const PlacedRank* rank : load.ranks) ranks.push_back(rank->place.rank);
  return ranks.size() > 8 ? counted(load.size(), "rank") : device::rank_list(ranks);
}

// One rule per function: the finding about one host, if there is one.

std::optional<Finding> more_ranks_than_cores(const Placement&, const HostLoad& load) {
  if (load.size() <= load.available) return std::nullopt;
  return Finding{fmt::format("{} has {} but {}: they take turns, and each step waits for the last one", load.host,
                             counted(load.size(), "rank"), counted(load.available, "core")),
                 fmt::format("start at most {} there", counted(load.available, "rank"))};
}

std::optional<Finding> shared_while_others_idle(const Placement& placement, const HostLoad& load) {
  if (!load.is_shared() || load.idle() == 0) return std::nullopt;
  const std::vector<int> cores(load.cores.begin(), load.cores.end());
  return Finding{
      fmt::format("{} on {} share {} ({}) while {} of its {} idle", names_of(load), load.host,
                  counted(load.used(), "core"), core_list(cores), load.idle(), counted(load.available, "core")),
      more_cores_flag(placement.launcher, std::max(1, load.available / load.size()))};
}

std::optional<Finding> bound_too_narrowly(const Placement& placement, const HostLoad& load) {
  if (load.is_shared() || load.idle() < load.size()) return std::nullopt;
  return Finding{fmt::format("{} on {} may use only {} of {}; the others idle", names_of(load), load.host, load.used(),
                             counted(load.available, "core")),
                 more_cores_flag(placement.launcher, std::max(1, load.available / load.size()))};
}

std::optional<Finding> more_threads_than_cores(const Placement& placement, const HostLoad& load) {
  const auto crowded = std::ranges::find_if(load.ranks, [](const PlacedRank* rank) {
    return rank->threads > static_cast<int>(std::max<size_t>(rank->place.cores.size(), 1));
  });
  if (load.size() > load.available) return std::nullopt;  // reported above
  if (crowded != load.ranks.end()) {
    const PlacedRank& rank = **crowded;
    const auto cores = static_cast<int>(rank.place.cores.size());
    const int possible = std::max(1, load.available / load.size());  // cores for each rank
    std::string fix = fmt::format("--threads {}", cores);
    if (load.idle() > 0 && possible > cores) {
      fix = more_cores_flag(placement.launcher, std::min(rank.threads, possible));
      if (rank.threads > possible) fix += fmt::format(", with --threads {}", possible);
    }
    return Finding{fmt::format("rank {} on {} computes with {} on {}", rank.place.rank, load.host,
                               counted(rank.threads, "thread"), counted(cores, "core")),
                   fix};
  }
  if (load.threads <= load.used()) return std::nullopt;
  return Finding{fmt::format("{} on {} compute with {} on {} together", names_of(load), load.host,
                             counted(load.threads, "thread"), counted(load.used(), "core")),
                 fmt::format("--threads {}", std::max(1, load.used() / load.size()))};
}

std::optional<Finding> uneven_hosts(const Placement& placement, const std::vector<HostLoad>& hosts) {
  const auto fewer = [](const HostLoad& a, const HostLoad& b) { return a.size() < b.size(); };
  const auto [least, most] = std::ranges::minmax_element(hosts, fewer);
  if (least->size() == most->size()) return std::nullopt;
  const int ranks = static_cast<int>(placement.ranks.size());
  const int count = static_cast<int>(hosts.size());
  const bool divides = ranks % count == 0;
  return Finding{fmt::format("the hosts are uneven: {} on {}, {} on {}; the fuller ones are waited for",
                             counted(most->size(), "rank"), most->host, counted(least->size(), "rank"), least->host),
                 divides ? even_ranks_flag(placement.launcher, ranks / count)
                         : fmt::format("start a multiple of {} ranks", count)};
}

/// The cores of several ranks as one cell.
std::string cores_cell(const HostLoad& load) {
  const std::vector<int> cores(load.cores.begin(), load.cores.end());
  const size_t each = load.ranks.front()->place.cores.size();
  return fmt::format("{} ({} each)", core_list(cores), each);
}

/// The compute threads of one rank: the cores that only it may use, and its share of the cores that it shares with
/// other ranks of its host.
int default_threads(std::span<const device::RankPlace> places, int rank) {
  const device::RankPlace& own = places[static_cast<size_t>(rank)];
  double share = 0.0;
  for (const int core : own.cores) {
    const auto users = std::ranges::count_if(places, [&](const device::RankPlace& place) {
      return machine_of(place) == machine_of(own) && std::ranges::find(place.cores, core) != place.cores.end();
    });
    share += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(users, 1));
  }
  return std::max(1, static_cast<int>(share + 1e-9));
}

/// Aligns cells in columns two blanks apart; the first row is the header.
std::string align(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i + 1 < row.size(); ++i) line += fmt::format("{:<{}}", row[i], widths[i] + 2);
    text += line + row.back() + "\n";
  }
  text.pop_back();
  return text;
}

}  // namespace

int Placement::hosts() const {
  std::set<int> nodes;
  for (const PlacedRank& rank : ranks) nodes.insert(rank.place.node);
  return static_cast<int>(nodes.size());
}

Placement place_threads(std::span<const transport::RankPlace> places, Launcher launcher, std::optional<int> threads) {
  Placement placement{.launcher = launcher, .ranks = {}};
  for (const transport::RankPlace& place : places) {
    placement.ranks.push_back({.place = place, .threads = threads.value_or(default_threads(places, place.rank))});
  }
  return placement;
}

std::vector<Finding> judge(const Placement& placement) {
  const std::vector<HostLoad> hosts = hosts_of(placement);
  std::vector<Finding> findings;
  for (const auto rule :
       {more_ranks_than_cores, shared_while_others_idle, bound_too_narrowly, more_threads_than_cores}) {
    std::optional<Finding> first;
    int others = 0;
    for (const HostLoad& load : hosts) {
      std::optional<Finding> found = rule(placement, load);
      if (found && first) ++others;
      if (found && !first) first = std::move(found);
    }
    if (!first) continue;
    if (others > 0) first->what += fmt::format(" (and {} like it)", counted(others, "host"));
    findings.push_back(*std::move(first));
  }
  if (auto uneven = uneven_hosts(placement, hosts)) findings.push_back(*std::move(uneven));
  return findings;
}

std::string core_list(std::span<const int> unsorted) {
  std::vector<int> cores(unsorted.begin(), unsorted.end());
  std::ranges::sort(cores);
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < cores.size();) {
    size_t end = begin + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    parts.push_back(end - begin == 1 ? fmt::format("{}", cores[begin])
                                     : fmt::format("{}-{}", cores[begin], cores[end - 1]));
    begin = end;
  }
  return parts.empty() ? "unknown" : fmt::format("{}", fmt::join(parts, ","));
}

std::string rank_table(const Placement& placement) {
  std::vector<std::vector<std::string>> rows;
  if (placement.ranks.size() <= kMostRankLines) {
    rows.push_back({"rank", "host", "local", "device", "threads", "cores"});
    for (const PlacedRank& rank : placement.ranks) {
      rows.push_back({fmt::format("{}", rank.place.rank), rank.place.host,
                      fmt::format("{}/{}", rank.place.local_rank, rank.place.local_size), rank.device,
                      fmt::format("{}", rank.threads), core_list(rank.place.cores)});
    }
    return align(rows);
  }
  rows.push_back({"ranks", "host", "count", "devices", "threads", "cores"});
  for (const HostLoad& load : hosts_of(placement)) {
    std::vector<int> ranks;
    std::set<std::string> devices;
    for (const PlacedRank* rank : load.ranks) {
      ranks.push_back(rank->place.rank);
      devices.insert(rank->device);
    }
    rows.push_back({core_list(ranks), load.host, fmt::format("{}", load.size()),
                    fmt::format("{}", fmt::join(devices, ",")), fmt::format("{}", load.threads), cores_cell(load)});
  }
  return align(rows);
}

}  // namespace lockstep::group
