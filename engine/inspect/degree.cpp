#include "engine/inspect/degree.h"
#include "runtime/core/short_number.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "runtime/core/ids.h"
#include "runtime/graph/passes.h"
#include "shards/shard_graphs.h"

namespace lockstep::inspect {
namespace {

// Degrees whose speeds differ by less than this count as equally fast: fewer ranks are better.
constexpr double kWorthARank = 1.01;

// Limit of the padding's share of weight memory: reading padding is wasted bandwidth.
constexpr double kMostPadding = 0.1;

double speed_of(const WorkingDegree& degree) { return degree.predicted.decode_tokens_per_s; }

Result<cost::RankMemory> memory_of(const PlanSetting& setting, std::span<const device::StepGraph> steps) {
  LOCKSTEP_TRY(const device::DeviceMemory memory, setting.devices->rules().memory_of(steps, setting.devices->values));
  return cost::RankMemory{memory.weights, memory.cache, memory.slots, memory.workspace};
}

/// Memory on the setting's devices, by rank. Ranks that run one program are alike; of others, those with graphs of the
/// same sizes.
Result<std::vector<cost::RankMemory>> memory_on_devices(const PlanSetting& setting,
                                                        const partition::Partition& partition,
                                                        const cost::GroupWork& group) {
  std::vector<cost::RankMemory> memory;
  if (setting.devices->driver.capabilities().whole_group) {
    LOCKSTEP_TRY(const auto graphs, shards::graphs_of_group(setting.spec, partition, setting.shard));
    std::vector<device::StepGraph> steps;
    for (const std::vector<graph::Graph>& ranks : graphs) steps.emplace_back(ranks.front(), ranks);
    LOCKSTEP_TRY(const cost::RankMemory each, memory_of(setting, steps));
    memory.assign(group.ranks.size(), each);
    return memory;
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    const int like = group.like[static_cast<size_t>(rank)];
    if (like < rank) {
      memory.push_back(cost::RankMemory(memory[static_cast<size_t>(like)]));
      continue;
    }
    LOCKSTEP_TRY(const shards::ShardGraphs graphs,
                 shards::build_graphs(setting.spec, partition, rank, setting.shard, graph::default_passes()));
    LOCKSTEP_TRY(memory.emplace_back(), memory_of(setting, graphs.steps()));
  }
  return memory;
}

/// The share of the weights' memory on devices, `padded`, that only pads it.
double padding_of(const std::vector<cost::RankMemory>& own, const std::vector<cost::RankMemory>& padded) {
  double held = 0, all = 0;
  for (const cost::RankMemory& rank : own) held += static_cast<double>(rank.weights.value);
  for (const cost::RankMemory& rank : padded) all += static_cast<double>(rank.weights.value);
  return std::max(0.0, 1 - held / all);
}

Result<WorkingDegree> work_out(const PlanSetting& setting, int ranks) {
  WorkingDegree degree;
  LOCKSTEP_TRY(degree.partition,
               partition::make_partition(setting.spec, ranks, setting.partition.experts, setting.partition.numerics));
  LOCKSTEP_TRY(const partition::GqaChoice choice,
               partition::choose_gqa(setting.partition.gqa, setting.spec, ranks, setting.shard.slots));
  degree.gqa_fallback = choice.why_not;
  if (choice.mode != degree.partition.gqa) {
    LOCKSTEP_TRY(degree.partition, partition::make_partition(setting.spec, ranks, setting.partition.experts,
                                                             setting.partition.numerics, choice.mode));
  }
  LOCKSTEP_TRY(const cost::GroupWork group, cost::group_work(setting.spec, degree.partition, setting.shard));
  for (const cost::RankWork& rank : group.ranks) degree.memory.push_back(rank.memory);
  degree.fullest = group.fullest();
  if (setting.devices) {
    LOCKSTEP_TRY(std::vector<cost::RankMemory> memory, memory_on_devices(setting, degree.partition, group));
    degree.padding = padding_of(degree.memory, memory);
    const auto most = std::ranges::max_element(memory, {}, [](const cost::RankMemory& rank) { return rank.total(); });
    degree.fullest = static_cast<int>(most - memory.begin());
    degree.memory = std::move(memory);
  }
  degree.predicted = cost::predict(group, setting.load, setting.machine);
  return degree;
}

std::string why_not_devices(const PlanSetting& setting, int ranks) {
  if (!setting.devices) return "";
  const std::string why_not = setting.devices->rules().why_not_degree(ranks, setting.devices->values);
  return why_not.empty() ? "" : "[engine/inspect] " + why_not;
}

bool has_windows(const checkpoint::ModelSpec& spec) {
  return std::ranges::any_of(spec.windows, [](int64_t window) { return window > 0; });
}

const Degree* next_working(const std::vector<Degree>& degrees, int after) {
  for (const Degree& degree : degrees) {
    if (degree.ranks > after && degree.working) return &degree;
  }
  return nullptr;
}

/// Why more ranks than `best` are not better.
std::string why_not_more(const Degree& best, const std::vector<Degree>& degrees) {
  const Degree* next = next_working(degrees, best.ranks);
  if (next == nullptr) {
    const Degree& last = degrees.back();
    return last.working ? "the most that was looked at (--max-tp)"
                        : fmt::format("more than {} do not work", best.ranks);
  }
  const auto rest = [](const cost::StepParts& step) { return step.total() - step.communication_s; };
  const cost::StepParts& step = next->working->predicted.decode;
  const std::string spends =
      fmt::format("TP {} spends {:.0f} % of a step in collectives", next->ranks, 100 * step.communication_share());
  if (rest(step) < 0.99 * rest(best.working->predicted.decode)) return spends;
  return fmt::format("{} and computes no faster", spends);
}

/// Why fewer ranks than `best` are not better.
std::string why_not_fewer(const PlanSetting& setting, const Degree& best, const std::vector<Degree>& degrees) {
  for (auto below = degrees.rbegin(); below != degrees.rend(); ++below) {
    if (below->ranks >= best.ranks || !below->working || fits(setting, *below->working)) continue;
    return fmt::format("; TP {} does not fit the budget", below->ranks);
  }
  return "";
}

/// Why the faster `degree` with padded ranks is not recommended.
std::string why_not_padded(const Degree& degree) {
  return fmt::format("TP {} would reach {} tok/s, but {:.0f} % of its weights' memory is padding", degree.ranks,
                     short_number(speed_of(*degree.working), 4), 100 * degree.working->padding);
}

/// The fastest of the degrees that fit and for which `may` is true; of nearly equal ones, that with fewest ranks. Null
/// if there is none.
const Degree* fastest_of(const PlanSetting& setting, const std::vector<Degree>& degrees,
                         const std::function<bool(const WorkingDegree&)>& may) {
  const Degree* best = nullptr;
  for (const Degree& degree : degrees) {
    if (!degree.working || !fits(setting, *degree.working) || !may(*degree.working)) continue;
    if (best == nullptr || speed_of(*degree.working) > kWorthARank * speed_of(*best->working)) best = &degree;
  }
  return best;
}

}  // namespace

Extent extent_of(const partition::Partition& partition, int64_t (*size)(const partition::RankPart&)) {
  Extent extent{size(partition.parts.front()), 0};
  for (const partition::RankPart& part : partition.parts) {
    extent.least = std::min(extent.least, size(part));
    extent.most = std::max(extent.most, size(part));
  }
  return extent;
}

namespace {

template <typename HeadsOf>
std::vector<int64_t> held_by_several(const partition::Partition& partition, const HeadsOf& heads_of) {
  std::map<int64_t, int> holders;
  for (const partition::RankPart& part : partition.parts) {
    for (int64_t head = heads_of(part).begin; head < heads_of(part).end; ++head) ++holders[head];
  }
  std::vector<int64_t> shared;
  for (const auto& [head, ranks] : holders) {
    if (ranks > 1) shared.push_back(head);
  }
  return shared;
}

}  // namespace

std::vector<int64_t> shared_heads(const partition::Partition& partition) {
  return held_by_several(partition, [](const partition::RankPart& part) { return part.heads.key_value; });
}

std::vector<int64_t> shared_global_heads(const partition::Partition& partition) {
  return held_by_several(partition, [](const partition::RankPart& part) { return part.global.heads; });
}

bool fits(const PlanSetting& setting, const WorkingDegree& degree) {
  return !setting.budget || degree.needed() <= *setting.budget;
}

Result<std::vector<Degree>> plan_degrees(const PlanSetting& setting, int most) {
  std::vector<Degree> degrees;
  for (int ranks = 1; ranks <= most; ++ranks) {
    Degree degree{.ranks = ranks, .working = std::nullopt, .refusal = why_not_devices(setting, ranks)};
    if (!degree.refusal.empty()) {
      degrees.push_back(std::move(degree));
      continue;
    }
    Result<WorkingDegree> working = work_out(setting, ranks);
    if (working.has_value()) {
      degree.working = std::move(working).value();
    } else if (ranks == 1 || working.error().kind != ErrorKind::kUnsupported) {
      return working.error();
    } else {
      degree.refusal = working.error().message;
    }
    degrees.push_back(std::move(degree));
  }
  return degrees;
}

std::string how_to_fit(const PlanSetting& setting, const WorkingDegree& degree) {
  const cost::RankMemory& memory = degree.of_fullest();
  const int64_t over = degree.needed() - *setting.budget;
  std::vector<std::string> ways;
  const shards::ShardOptions& shard = setting.shard;
  // The part of `units` that remains when `bytes`, their memory, shrinks by `over`.
  const auto left = [over](int64_t units, Bytes bytes) {
    if (bytes.value <= over) return int64_t{0};
    return static_cast<int64_t>(static_cast<double>(units) * static_cast<double>(bytes.value - over) /
                                static_cast<double>(bytes.value));
  };
  const int64_t tokens = has_windows(setting.spec) ? 0 : left(shard.capacity, memory.cache);
  const int64_t slots = left(shard.slots, memory.states()), rows = left(shard.chunk, memory.workspace);
  if (tokens >= setting.load.prompt_tokens + setting.load.new_tokens - 1)
    ways.push_back(fmt::format("--max-seq-len {}", tokens));
  if (slots > 0) ways.push_back(fmt::format("--batch-size {}", slots));
  if (rows > 0) ways.push_back(fmt::format("--prefill-chunk {}", rows));
  if (shard.dtype == DType::kFloat32) ways.push_back("--dtype bfloat16");
  if (degree.partition.ranks() < partition::largest_degree(setting.spec, setting.partition.experts))
    ways.push_back("more ranks");
  if (ways.empty()) ways.push_back("a larger budget");
  return fmt::format("{} over the budget: {}", to_string(Bytes(over)), fmt::join(ways, ", or "));
}

bool is_wasteful(const WorkingDegree& degree) { return degree.padding > kMostPadding; }

Best best_of(const PlanSetting& setting, const std::vector<Degree>& degrees) {
  const Degree* fastest = fastest_of(setting, degrees, [](const WorkingDegree&) { return true; });
  if (fastest == nullptr) return {0, "none fits the budget"};
  const Degree* thrifty =
      fastest_of(setting, degrees, [](const WorkingDegree& degree) { return !is_wasteful(degree); });
  const Degree& best = thrifty == nullptr ? *fastest : *thrifty;
  const std::string why_not = &best == fastest ? why_not_more(best, degrees) : why_not_padded(*fastest);
  return {best.ranks, fmt::format("{} tok/s; {}{}", short_number(speed_of(*best.working), 4), why_not,
                                  why_not_fewer(setting, best, degrees))};
}

}  // namespace lockstep::inspect
