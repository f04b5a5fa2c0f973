#include "runtime/backends/cuda/launch_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/backends/cuda/fusion_plan.h"
#include "runtime/graph/dataflow.h"

namespace lockstep::cuda {
namespace {

using graph::Op;

constexpr int kRegionShift = 48;
constexpr uint64_t kFirstRegion = 0x5a01;  // as two numbers of 32 bits: 1.5 · 10⁹ and any, or a float of 9 · 10¹⁵

enum class Region { kWeights, kCaches, kWorkspace, kTables, kHead, kControl, kAreas };

uint64_t begin_of(Region region, uint64_t rank = 0) {
  return (kFirstRegion + static_cast<uint64_t>(region) + rank) << kRegionShift;
}

/// A word that is an address.
struct Spot {
  Region region;
  int rank = 0;  // of an area that peers see
  int64_t offset = 0;
};

std::optional<Spot> spot_of(uint64_t word) {
  const uint64_t number = word >> kRegionShift;
  const uint64_t areas = kFirstRegion + static_cast<uint64_t>(Region::kAreas);
  if (number < kFirstRegion || number >= areas + kMostRanks) return std::nullopt;
  const auto offset = static_cast<int64_t>(word & ((uint64_t{1} << kRegionShift) - 1));
  if (number >= areas) return Spot{Region::kAreas, static_cast<int>(number - areas), offset};
  return Spot{static_cast<Region>(number - kFirstRegion), 0, offset};
}

std::vector<uint64_t> words_of(const Launch& launch) {
  std::vector<uint64_t> words(launch.parameters.size() / sizeof(uint64_t));
  std::memcpy(words.data(), launch.parameters.data(), words.size() * sizeof(uint64_t));
  return words;
}

/// A weight in the form that lies at an address.
struct FoundWeight {
  const std::string& name;
  const WeightLayout& weight;
  const WeightForm& form;
};

std::optional<FoundWeight> weight_at(const StoreLayout& layout, int64_t offset) {
  for (const auto& [name, weight] : layout.weights) {
    for (const WeightForm& form : weight.forms) {
      if (offset >= form.offset && offset < form.offset + std::max<int64_t>(1, bytes_of(weight, form))) {
        return FoundWeight{name, weight, form};
      }
    }
  }
  return std::nullopt;
}

const StateLayout* cache_at(const StoreLayout& layout, int64_t offset) {
  const auto found = std::ranges::find_if(
      layout.states, [&](const StateLayout& state) { return state.cache && state.cache->offset == offset; });
  return found == layout.states.end() ? nullptr : &*found;
}

/// The share of a weight that a launch of `node` reads.
double share_read(const graph::Graph& graph, const graph::Node& node, const WeightLayout& weight) {
  const auto rows = static_cast<double>(graph.rows);
  if (node.op == Op::kEmbedding) return std::min(1.0, rows / static_cast<double>(weight.type.shape[0]));
  if (node.op != Op::kMoeExperts) return 1;
  const auto experts = static_cast<double>(graph.value(node.operands[1]).type.shape[1]);
  return 1 - std::pow(1 - static_cast<double>(graph::experts_of_row(graph, node.operands[1])) / experts, rows);
}

/// Whether a launch appends to the caches, rather than reads them.
bool is_append(const graph::Node& node, const Launch& launch) {
  return node.op == Op::kKvAppend || launch.kernel.starts_with("prepare_heads");
}

double bytes_of_cache(const graph::Graph& graph, const graph::Node& node, const Launch& launch,
                      const CacheLayout& cache, const CachesInUse& caches) {
  const auto token = static_cast<double>(cache.heads * cache.row_bytes());
  if (is_append(node, launch)) return token * static_cast<double>(graph.rows);
  const int64_t window = node.integer_or("window", 0);
  const int64_t pinned = node.integer_or("pinned", 0);
  const int64_t seen = window > 0 ? window + pinned : cache.held.capacity;
  const int64_t sequences = std::min(caches.sequences, cache.held.slots);
  return token * static_cast<double>(std::min(seen, caches.tokens) * sequences);
}

/// The nodes that launches compute together, and the values between them.
class Groups {
 public:
  explicit Groups(const graph::Graph& graph) : graph_(graph), fusion_(plan_fusion(graph)), flow_(graph) {}

  /// The bytes that the launches of `node` read from others': not weights, nor states.
  double read(size_t node) const {
    std::set<graph::ValueId> seen;
    double bytes = 0;
    for (const size_t member : members(node)) {
      for (const graph::ValueId id : graph_.nodes[member].operands) {
        const auto maker = flow_.maker(id);
        const bool is_inner = maker && fusion_.launch_of(*maker) == node;
        if (!is_inner && seen.insert(id).second) bytes += bytes_of_operand(graph_.nodes[member], id);
      }
    }
    return bytes;
  }

  /// The bytes that they write for others.
  double written(size_t node) const {
    double bytes = 0;
    for (const size_t member : members(node)) {
      const auto& result = graph_.nodes[member].result;
      if (result && is_read_outside(node, *result)) bytes += size(*result);
    }
    return bytes;
  }

 private:
  std::vector<size_t> members(size_t node) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (fusion_.launch_of(i) == node) found.push_back(i);
    }
    return found;
  }

  double size(graph::ValueId id) const { return static_cast<double>(graph_.value(id).type.bytes()); }

  /// Of a choice of rows or columns, those that are chosen.
  double bytes_of_operand(const graph::Node& node, graph::ValueId id) const {
    const graph::Value& value = graph_.value(id);
    if (value.kind == graph::ValueKind::kWeight || value.kind == graph::ValueKind::kState) return 0;
    const bool chooses = node.op == Op::kSelectRows || node.op == Op::kLookup || node.op == Op::kColumns;
    return chooses && node.result ? std::min(size(id), size(*node.result)) : size(id);
  }

  bool is_read_outside(size_t node, graph::ValueId id) const {
    const auto is = [&](const graph::Output& output) { return output.value == id; };
    if (std::ranges::any_of(graph_.outputs, is)) return true;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const bool reads = std::ranges::find(graph_.nodes[i].operands, id) != graph_.nodes[i].operands.end();
      if (reads && fusion_.launch_of(i) != node) return true;
    }
    return false;
  }

  const graph::Graph& graph_;
  const FusionPlan fusion_;
  const graph::Dataflow flow_;
};

std::string text_of(const Spot& spot, const StoreLayout& layout) {
  switch (spot.region) {
    case Region::kWeights: {
      const auto found = weight_at(layout, spot.offset);
      if (!found) return fmt::format("w+{}", spot.offset);
      const int64_t within = spot.offset - found->form.offset;
      return within == 0 ? fmt::format("w {}", found->name) : fmt::format("w {}+{}", found->name, within);
    }
    case Region::kCaches: {
      const StateLayout* cache = cache_at(layout, spot.offset);
      return cache == nullptr ? fmt::format("cache+{}", spot.offset) : fmt::format("cache {}", cache->name);
    }
    case Region::kWorkspace: return fmt::format("work+{}", spot.offset);
    case Region::kTables: return fmt::format("table+{}", spot.offset);
    case Region::kHead: return fmt::format("head+{}", spot.offset);
    case Region::kControl: return fmt::format("control+{}", spot.offset);
    case Region::kAreas: return fmt::format("peer {}+{}", spot.rank, spot.offset);
  }
  return "";
}

/// A number of 32 bits: whole, or floating-point where it would be too large for a size.
std::string text_of(uint32_t number) {
  constexpr int32_t kMostSize = 1 << 24;
  const auto whole = static_cast<int32_t>(number);
  if (std::abs(static_cast<int64_t>(whole)) <= kMostSize) return fmt::format("{}", whole);
  return fmt::format("{:.6g}", std::bit_cast<float>(number));
}

}  // namespace

LaunchBytes& LaunchBytes::operator+=(const LaunchBytes& other) {
  weights += other.weights;
  cache += other.cache;
  activations += other.activations;
  written += other.written;
  return *this;
}

Bases marked_bases() {
  Bases bases{.weights = begin_of(Region::kWeights),
              .caches = begin_of(Region::kCaches),
              .workspace = begin_of(Region::kWorkspace),
              .tables = begin_of(Region::kTables),
              .head = begin_of(Region::kHead),
              .control = begin_of(Region::kControl)};
  for (uint64_t rank = 0; rank < kMostRanks; ++rank) bases.areas[rank] = begin_of(Region::kAreas, rank);
  return bases;
}

CachesInUse full_caches(const graph::Graph& graph, const StoreLayout& layout) {
  CachesInUse caches;
  for (const StateLayout& state : layout.states) {
    if (state.cache) caches.tokens = std::max(caches.tokens, state.cache->held.capacity);
  }
  const bool reads_prompts = graph.name.starts_with("prefill") || graph.name.starts_with("score");
  caches.sequences = reads_prompts ? 1 : graph.slots;
  return caches;
}

std::vector<LaunchBytes> bytes_of_launches(const graph::Graph& graph, const StoreLayout& layout, const StepPlan& plan,
                                           const CachesInUse& caches) {
  std::vector<LaunchBytes> all(plan.launches.size());
  const Groups groups(graph);
  // Node, append, begin (of caches negative): a node's launches share the bytes.
  std::set<std::tuple<size_t, bool, int64_t>> counted;
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    const graph::Node& node = graph.nodes[launch.node];
    for (const uint64_t word : words_of(launch)) {
      const std::optional<Spot> spot = spot_of(word);
      if (!spot) continue;
      const auto is_new = [&](int64_t begin) {
        return counted.emplace(launch.node, is_append(node, launch), begin).second;
      };
      if (spot->region == Region::kWeights) {
        const auto found = weight_at(layout, spot->offset);
        if (!found || !is_new(found->form.offset)) continue;  // gates and what they gate may be one weight
        all[i].weights +=
            static_cast<double>(bytes_of(found->weight, found->form)) * share_read(graph, node, found->weight);
      } else if (spot->region == Region::kCaches) {
        const StateLayout* cache = cache_at(layout, spot->offset);
        if (cache == nullptr || !is_new(-1 - spot->offset)) continue;
        all[i].cache += bytes_of_cache(graph, node, launch, *cache->cache, caches);
      }
    }
    const bool is_first = i == 0 || plan.launches[i - 1].node != launch.node;
    const bool is_last = i + 1 == plan.launches.size() || plan.launches[i + 1].node != launch.node;
    if (is_first) all[i].activations = groups.read(launch.node);
    if (is_last) all[i].written = groups.written(launch.node);
  }
  return all;
}

std::string parameters_of(const Launch& launch, const StoreLayout& layout) {
  std::vector<std::string> words;
  int times = 1;  // that the last word stands there
  const auto add = [&](std::string text) {
    const bool repeats = !words.empty() && words.back() == text;
    if (!repeats && times > 1) words.back() += fmt::format(" x {}", times);
    times = repeats ? times + 1 : 1;
    if (!repeats) words.push_back(std::move(text));
  };
  for (const uint64_t word : words_of(launch)) {
    if (const std::optional<Spot> spot = spot_of(word)) {
      add(text_of(*spot, layout));
      continue;
    }
    const auto low = static_cast<uint32_t>(word), high = static_cast<uint32_t>(word >> 32);
    add(high == 0 ? text_of(low) : fmt::format("{} {}", text_of(low), text_of(high)));
  }
  if (times > 1) words.back() += fmt::format(" x {}", times);
  return fmt::format("[{}]", fmt::join(words, ", "));
}

}  // namespace lockstep::cuda
