#include "launcher/measure/doctor/judgements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/drivers.h"
#include "runtime/core/ids.h"
#include "transport/region/region.h"
#include "transport/shm/shm.h"
#include "transport/waiting.h"

namespace lockstep::launcher {
namespace {

using transport::Launcher;

constexpr int64_t kLeastMemory = int64_t{1} << 30;  // per rank: less cannot hold a useful model
constexpr double kMostPressure = 0.2;               // of the time; a start of the ranks alone makes some
constexpr int64_t kOwnFiles = 64;  // files that a rank opens in addition to its peers' sockets and the model's files

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string size_text(int64_t bytes) { return to_string(Bytes(bytes)); }

/// "rank 1 on node0".
std::string name_of(const group::Placement& placement, size_t rank) {
  return fmt::format("rank {} on {}", rank, placement.ranks.at(rank).place.host);
}

/// The first rank of each host.
std::vector<size_t> host_heads(const group::Placement& placement) {
  std::vector<size_t> heads;
  std::set<int> seen;
  for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    if (seen.insert(placement.ranks[rank].place.node).second) heads.push_back(rank);
  }
  return heads;
}

int threads_on(const group::Placement& placement, int node) {
  int threads = 0;
  for (const group::PlacedRank& rank : placement.ranks) threads += rank.place.node == node ? rank.threads : 0;
  return threads;
}

bool has_slurm(Launcher launcher) { return launcher == Launcher::kSlurm; }

}  // namespace

Check judge_launch(const LaunchFacts& facts) {
  const transport::LaunchEnvironment& environment = facts.environment;
  const bool is_started = environment.launcher != Launcher::kNone && environment.size != 1;
  Check check;
  if (facts.launch == Launch::kThreads) {
    check.found = fmt::format("{} in one process: no launcher, no MPI", counted(facts.tp.value_or(1), "rank"));
    if (!is_started) return check;
    check.status = CheckStatus::kFailed;
    check.found = fmt::format("{} starts several processes, and --launch threads makes each of them a job of its own",
                              transport::to_string(environment.launcher));
    check.expected = "one process";
    check.fix = "omit --launch threads, or start lockstep without the launcher";
    return check;
  }
  if (const auto fits = transport::check_launcher(environment, facts.library); !fits.has_value()) {
    return failed_check(fits.error());
  }
  if (environment.launcher == Launcher::kNone) {
    check.found = "1 rank, started without a launcher";
    if (facts.in_slurm_job) {
      check.status = CheckStatus::kWarning;
      check.found += ", inside a Slurm job";
      check.expected = "a rank on each of the job's tasks";
      check.fix =
          facts.library.starts_with("MPICH") ? "srun --mpi=pmi2 lockstep doctor" : "srun --mpi=pmix lockstep doctor";
    }
  } else {
    const std::string size = environment.size ? counted(*environment.size, "rank") : "ranks";
    check.found = fmt::format("{}, started by {}; this program's MPI is {}", size,
                              transport::to_string(environment.launcher), facts.library);
  }
  const std::optional<int> size = environment.launcher == Launcher::kNone ? std::optional(1) : environment.size;
  if (facts.tp && size && *facts.tp != *size) {
    check.status = CheckStatus::kFailed;
    check.expected = fmt::format("{} as --tp says", counted(*facts.tp, "rank"));
    check.fix = fmt::format("mpirun -n {} lockstep doctor, or omit --tp", *facts.tp);
  }
  return check;
}

std::string launcher_words(const transport::LaunchEnvironment& environment, int ranks) {
  switch (environment.launcher) {
    case Launcher::kNone:
    case Launcher::kLockstep: return "";
    case Launcher::kOpenMpi: return fmt::format("mpirun -n {}", ranks);
    case Launcher::kPmi: return fmt::format("mpirun.mpich -n {}", ranks);
    case Launcher::kSlurm: return fmt::format("srun --mpi={} -n {}", environment.speaks_pmix ? "pmix" : "pmi2", ranks);
    case Launcher::kPmix: return fmt::format("srun --mpi=pmix -n {}", ranks);
  }
  return "";
}

Check judge_places(const group::Placement& placement) {
  Check check;
  check.found =
      fmt::format("{} on {}", counted(std::ssize(placement.ranks), "rank"), counted(placement.hosts(), "host"));
  check.table = rank_table(placement);
  const std::vector<group::Finding> findings = judge(placement);
  std::vector<std::string> what, fixes;
  for (const group::Finding& finding : findings) {
    what.push_back(finding.what);
    fixes.push_back(finding.fix);
  }
  if (findings.empty()) return check;
  check.status = CheckStatus::kWarning;
  check.found = fmt::format("{}", fmt::join(what, "; "));
  check.expected = "cores of its own for every rank, as many as it has threads";
  check.fix = fmt::format("{}", fmt::join(fixes, "; "));
  return check;
}

Check judge_hosts(const group::Placement& placement, std::span<const RankFacts> facts) {
  Check check;
  std::vector<std::string> hosts;
  for (const size_t head : host_heads(placement)) {
    const RankFacts& own = facts[head];
    const device::RankPlace& place = placement.ranks[head].place;
    std::string line = fmt::format("{}: {}, {} of memory ({} available)", place.host, counted(place.host_cores, "core"),
                                   size_text(own.memory_bytes), size_text(own.available_bytes));
    if (!own.machine.empty()) line += fmt::format(", of {}", own.machine);
    if (own.core_limit) line += fmt::format(", at most {:.3g} cores' time", *own.core_limit);
    if (own.memory_limit) line += fmt::format(", at most {} for this job", size_text(*own.memory_limit));
    const bool is_busy = own.core_pressure.value_or(0.0) > kMostPressure;
    if (is_busy) {
      line +=
          fmt::format("; in the last 10 s work waited there for a core {:.0f} % of the time", 100 * *own.core_pressure);
    }
    hosts.push_back(std::move(line));
    const int threads = threads_on(placement, place.node);
    if (own.core_limit && *own.core_limit < threads - 0.01 && check.fix.empty()) {
      check.status = CheckStatus::kWarning;
      check.expected =
          fmt::format("the time of {} for {} on {}", counted(threads, "core"), counted(threads, "thread"), place.host);
      check.fix = fmt::format("raise the limit of the container or job ({}), or --threads {}",
                              has_slurm(placement.launcher) ? "srun --cpus-per-task" : "docker --cpus",
                              std::max(1, static_cast<int>(*own.core_limit / place.local_size)));
    }
    if (is_busy && check.fix.empty()) {
      check.status = CheckStatus::kWarning;
      check.expected = fmt::format("no other programs on the cores of {}", place.host);
      check.fix = "end or move them (top shows them), or ask the cluster for hosts alone (srun --exclusive)";
    }
    const int64_t usable = std::min(own.available_bytes, own.memory_limit.value_or(own.available_bytes));
    if (usable >= 0 && usable / place.local_size < kLeastMemory && check.fix.empty()) {
      check.status = CheckStatus::kWarning;
      check.expected = fmt::format("at least {} for each rank on {}", size_text(kLeastMemory), place.host);
      check.fix = "end what uses the memory, start fewer ranks there, or raise the job's limit";
    }
  }
  check.found = fmt::format("{}", fmt::join(hosts, "; "));
  return check;
}

Check judge_limits(const group::Placement& placement, std::span<const RankFacts> facts) {
  Check check;
  const int64_t needed = kOwnFiles + 2 * std::ssize(placement.ranks);
  const auto unlimited = [](int64_t limit) { return limit < 0 ? std::string("unlimited") : fmt::format("{}", limit); };
  const auto fewest = std::ranges::min_element(facts, {}, [](const RankFacts& own) {
    return own.open_files < 0 ? std::numeric_limits<int64_t>::max() : own.open_files;
  });
  const auto rank = static_cast<size_t>(fewest - facts.begin());
  const std::string locked = fewest->locked_bytes < 0 ? "unlimited" : size_text(fewest->locked_bytes);
  check.found =
      fmt::format("open files (ulimit -n): {}; locked memory (ulimit -l): {}", unlimited(fewest->open_files), locked);
  if (fewest->open_files >= 0 && fewest->open_files < needed) {
    check.status = CheckStatus::kFailed;
    check.found = fmt::format("{} may open {} files", name_of(placement, rank), fewest->open_files);
    check.expected = fmt::format("at least {}", needed);
    check.fix = "ulimit -n 4096 before the launcher (limits.conf or the job's settings on other hosts)";
    return check;
  }
  const auto locked_out =
      std::ranges::find_if(facts, [](const RankFacts& own) { return own.has_infiniband && own.locked_bytes >= 0; });
  if (locked_out == facts.end()) return check;
  check.status = CheckStatus::kWarning;
  check.found = fmt::format("{} has InfiniBand and may lock {} of memory",
                            name_of(placement, static_cast<size_t>(locked_out - facts.begin())),
                            size_text(locked_out->locked_bytes));
  check.expected = "unlimited: transfers lock their buffers";
  check.fix = "ulimit -l unlimited (limits.conf, or PropagateResourceLimits of Slurm)";
  return check;
}

Check judge_program(const group::Placement& placement, std::span<const RankFacts> facts) {
  Check check;
  std::vector<int> others;
  for (size_t rank = 1; rank < facts.size(); ++rank) {
    if (facts[rank].program != facts[0].program) others.push_back(static_cast<int>(rank));
  }
  const auto last_line = [](std::string text) {
    if (text.ends_with('\n')) text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  };
  check.found = fmt::format("{} on every rank", last_line(facts[0].program));
  if (others.empty()) return check;
  const auto first = static_cast<size_t>(others.front());
  check.status = CheckStatus::kFailed;
  check.found =
      fmt::format("{} {} another program: {} on {}", transport::rank_list(others), others.size() == 1 ? "runs" : "run",
                  last_line(facts[first].program), placement.ranks[first].place.host);
  check.expected = fmt::format("{} as on rank 0", last_line(facts[0].program));
  check.fix = "install one build on every host, and start it by the same path everywhere";
  return check;
}

Check judge_devices(const group::Placement& placement, std::span<const RankFacts> facts) {
  Check check;
  std::vector<std::string_view> names;
  std::vector<std::string> devices;
  for (const device::BackendDriver* driver : engine::drivers()) {
    const bool is_there = driver->available().has_value();
    if (is_there) names.push_back(driver->name());
    for (const size_t head : host_heads(placement)) {
      const auto installed = facts[head].installed.find(std::string(driver->name()));
      if (installed == facts[head].installed.end()) continue;
      devices.push_back(fmt::format("{} on {} ({} {})", counted(installed->second, driver->signs().noun),
                                    placement.ranks[head].place.host, is_there ? "--backend" : "not used: no",
                                    driver->name()));
    }
  }
  for (const auto& [name, value] : facts[0].visible) devices.push_back(fmt::format("{}={}", name, value));
  check.found = fmt::format("this build has the backends {}", fmt::join(names, ", "));
  if (!devices.empty()) check.found += fmt::format("; {}", fmt::join(devices, ", "));
  for (const size_t head : host_heads(placement)) {
    const std::string& host = placement.ranks[head].place.host;
    for (const auto& [name, lines] : facts[head].devices) {
      check.found += fmt::format("; {} on {}: {}", name, host, fmt::join(lines, "; "));
    }
    for (const auto& [name, error] : facts[head].device_errors) {
      check.status = CheckStatus::kWarning;
      check.found += fmt::format("; {} on {} does not work: {}", name, host, error);
      check.expected = "a driver that works with the devices of the host";
      check.fix = fmt::format("do what the message says, then try again; or leave the devices alone (--backend cpu)");
    }
  }
  return check;
}

int64_t shm_need(int ranks) {
  const transport::shm::Options options;
  return static_cast<int64_t>(transport::region::Layout::of(ranks, options.message_bytes).bytes());
}

Check judge_shm_space(const group::Placement& placement, std::span<const RankFacts> facts) {
  Check check;
  std::vector<std::string> hosts;
  for (const size_t head : host_heads(placement)) {
    const device::RankPlace& place = placement.ranks[head].place;
    if (place.local_size == 1) continue;
    const RankFacts& own = facts[head];
    const int64_t needed = shm_need(place.local_size);
    hosts.push_back(fmt::format("{}: /dev/shm has {} free of {}, {} needed", place.host, size_text(own.shm_free),
                                size_text(own.shm_bytes), size_text(needed)));
    if (own.shm_free >= needed || check.status == CheckStatus::kFailed) continue;
    check.status = CheckStatus::kFailed;
    check.expected = fmt::format("at least {} free on {}", size_text(needed), place.host);
    check.fix =
        "make /dev/shm larger (mount -o remount,size=1G /dev/shm; in a container --shm-size=1g), or remove "
        "what fills it; --communicator mpi works without it, slower";
  }
  check.found = fmt::format("{}", fmt::join(hosts, "; "));
  return check;
}

Check judge_clocks(const group::Placement& placement, std::span<const double> seconds) {
  Check check;
  if (placement.hosts() == 1) {
    check.found = "one host, one clock";
    return check;
  }
  const auto farthest = std::ranges::max_element(seconds, {}, [](double value) { return std::abs(value); });
  const auto rank = static_cast<size_t>(farthest - seconds.begin());
  check.found = fmt::format("the clocks of the hosts differ by at most {:.3g} ms ({})", std::abs(*farthest) * 1e3,
                            name_of(placement, rank));
  return check;
}

namespace {

using Files = std::vector<std::pair<std::string, int64_t>>;

/// A file that differs between two folders in presence or size; −1: missing.
struct DifferentFile {
  std::string name;
  int64_t found = -1, expected = -1;
};

DifferentFile first_difference(const Files& found, const Files& expected) {
  const std::map<std::string, int64_t> own(found.begin(), found.end()), wanted(expected.begin(), expected.end());
  std::set<std::string> names;
  for (const auto& [name, bytes] : found) names.insert(name);
  for (const auto& [name, bytes] : expected) names.insert(name);
  const auto size_in = [](const std::map<std::string, int64_t>& files, const std::string& name) {
    const auto file = files.find(name);
    return file == files.end() ? int64_t{-1} : file->second;
  };
  for (const std::string& name : names) {
    if (size_in(own, name) != size_in(wanted, name)) return {name, size_in(own, name), size_in(wanted, name)};
  }
  return {};
}

std::string size_words(int64_t bytes) { return bytes < 0 ? "no such file" : counted(bytes, "byte"); }

double bytes_per_s(const ModelFacts& facts) {
  return static_cast<double>(facts.sample_bytes) / std::max(facts.sample_seconds, 1e-9);
}

}  // namespace

Check judge_model(const group::Placement& placement, std::span<const ModelFacts> facts, std::string_view folder) {
  Check check;
  check.status = CheckStatus::kFailed;
  check.expected = "the same readable files on every rank";
  check.fix = "copy the model to the same path on every host, or use a folder that all hosts share";
  for (size_t rank = 0; rank < facts.size(); ++rank) {
    if (facts[rank].problem.empty()) continue;
    check.found = fmt::format("{}: {}", name_of(placement, rank), facts[rank].problem);
    return check;
  }
  for (size_t rank = 1; rank < facts.size(); ++rank) {
    if (facts[rank].files == facts[0].files) continue;
    const DifferentFile file = first_difference(facts[rank].files, facts[0].files);
    check.found = fmt::format("{} has another {}: {}", name_of(placement, rank), file.name, size_words(file.found));
    check.expected = fmt::format("{} as on rank 0", size_words(file.expected));
    return check;
  }
  int64_t bytes = 0;
  for (const auto& [name, size] : facts[0].files) bytes += size;
  check = {};
  check.found = fmt::format("{}: {}, {}, the same on every rank; read at {:.3g} GB/s or more", folder,
                            counted(std::ssize(facts[0].files), "file"), size_text(bytes),
                            bytes_per_s(*std::ranges::min_element(facts, {}, bytes_per_s)) / 1e9);
  return check;
}

std::vector<HostLine> host_lines(const group::Placement& placement, std::span<const RankFacts> facts) {
  std::vector<HostLine> hosts;
  for (const size_t head : host_heads(placement)) {
    const device::RankPlace& place = placement.ranks[head].place;
    HostLine line{.name = place.host,
                  .ranks = {},
                  .cores = place.host_cores,
                  .memory_bytes = facts[head].memory_bytes,
                  .available_bytes = facts[head].available_bytes,
                  .memory_limit = facts[head].memory_limit,
                  .core_limit = facts[head].core_limit,
                  .core_pressure = facts[head].core_pressure,
                  .shm_bytes = facts[head].shm_bytes,
                  .shm_free = facts[head].shm_free};
    for (const group::PlacedRank& rank : placement.ranks) {
      if (rank.place.node == place.node) line.ranks.push_back(rank.place.rank);
    }
    hosts.push_back(std::move(line));
  }
  return hosts;
}

std::vector<RankLine> rank_lines(const group::Placement& placement) {
  std::vector<RankLine> lines;
  for (const group::PlacedRank& rank : placement.ranks) {
    lines.push_back({.host = rank.place.host,
                     .device = rank.device,
                     .cores = rank.place.cores,
                     .threads = rank.threads,
                     .read_bytes_per_s = std::nullopt,
                     .flops_per_s = std::nullopt});
  }
  return lines;
}

}  // namespace lockstep::launcher
