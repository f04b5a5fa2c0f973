#include "runtime/backends/cpu/linear_plan.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

/// Steps of a panel whose weights stay in the first-level cache while the tiles of few rows pass; one strip after the
/// other with half as many registers. 16 KiB at most, or a page of 4 KiB.
constexpr int64_t kFewSlabSteps = 64, kShortSlabSteps = 16;
/// Adds the segments of a leaf, [begin, end) steps, at `level`.
void add_leaf(std::vector<Segment>& segments, Range steps, Segment like, int64_t most_steps) {
  do {
    Segment segment = like;
    segment.begin = steps.begin;
    segment.steps = std::min(steps.size(), most_steps);
    steps.begin += segment.steps;
    if (steps.size() > 0) {
      segment.merges = 0;
      segment.root = -1;
    }
    segments.push_back(segment);
    like.opens = false;
  } while (steps.size() > 0);
}

void add_leaf(LinearPlan& plan, Range steps, const Segment& like) {
  add_leaf(plan.segments, steps, like, kSlabSteps);
  add_leaf(plan.few, steps, like, kFewSlabSteps);
  add_leaf(plan.streamed, steps, like, steps.size());
  plan.levels = std::max(plan.levels, like.level + 1);
}

std::vector<int64_t> slabs_of(const std::vector<Segment>& segments, int64_t most_steps) {
  std::vector<int64_t> slabs = {0};
  int64_t steps = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool is_after_root = i > 0 && segments[i - 1].root >= 0;
    const int64_t more = segments[i].steps + segments[i].next_steps;
    if (steps > 0 && (is_after_root || steps + more > most_steps)) {
      slabs.push_back(static_cast<int64_t>(i));
      steps = 0;
    }
    steps += more;
  }
  slabs.push_back(static_cast<int64_t>(segments.size()));
  return slabs;
}

void cut_into_slabs(LinearPlan& plan, int64_t few_steps = kFewSlabSteps) {
  plan.slabs = slabs_of(plan.segments, kSlabSteps);
  plan.few_slabs = slabs_of(plan.few, few_steps);
}

}  // namespace

Range steps_of_leaf(const Packing& packing, int64_t leaf, int64_t block) {
  const int64_t steps = packing.pairs ? packing.padded_leaf(block) / 2 : block;
  return {leaf * steps, std::min((leaf + 1) * steps, packing.steps())};
}

LinearPlan LinearPlan::plain(const Packing& packing) {
  LinearPlan plan;
  add_leaf(plan, {0, packing.steps()}, {.opens = true, .root = 0});
  cut_into_slabs(plan);
  return plan;
}

LinearPlan LinearPlan::blocks(const Packing& packing, const BlockSplit& split, int rank, int64_t block) {
  LinearPlan plan;
  for (const TreeLeaf& leaf : leaves_of(split, rank)) {
    add_leaf(plan, steps_of_leaf(packing, leaf.number - split.range_of(rank).begin, block),
             {.level = leaf.level, .opens = true, .merges = leaf.merges, .root = leaf.root});
  }
  cut_into_slabs(plan);
  return plan;
}

LinearPlan LinearPlan::in_pairs() const {
  LinearPlan paired = *this;
  paired.segments.clear();
  for (size_t i = 0; i < segments.size(); ++i) {
    Segment segment = segments[i];
    const Segment next = i + 1 < segments.size() ? segments[i + 1] : Segment{};
    const bool is_left_leaf = segment.opens && segment.merges == 0 && segment.root < 0;
    if (is_left_leaf && next.opens && next.merges > 0 && next.steps > 0 && segment.steps + next.steps <= kSlabSteps) {
      segment.next_steps = next.steps;
      segment.merges = next.merges - 1;
      segment.root = next.root;
      ++i;
    }
    paired.segments.push_back(segment);
  }
  cut_into_slabs(paired);
  return paired;
}

LinearPlan LinearPlan::in_short_slabs() const {
  LinearPlan cut = *this;
  cut.few.clear();
  for (const Segment& segment : few) {
    add_leaf(cut.few, {segment.begin, segment.begin + segment.steps}, segment, kShortSlabSteps);
  }
  cut_into_slabs(cut, kShortSlabSteps);
  return cut;
}

}  // namespace lockstep::cpu
