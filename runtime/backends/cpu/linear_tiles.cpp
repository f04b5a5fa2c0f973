// Products with AMX, whose speed requires operands in the second-level cache. Weights are read once, from memory. If x
// is larger than a second-level cache, a slab of its columns stays there while a group of panels is processed:
//
//                  slab 0     slab 1          panels of a group × slabs of K: 0 1 2 3, then 4 5 6 7
//   panel 0        0          4
//   panel 1        1          5               the next weights are prefetched meanwhile
//   panel 2        2          6
//   panel 3        3          7               sums wait in the group's stacks
#include <algorithm>

#include "runtime/backends/cpu/linear.h"

namespace lockstep::cpu {
namespace {

constexpr int64_t kTiledSlabSteps = 64;
constexpr int64_t kAheadBytes = 1024;     // prefetch distance of one tile of rows
constexpr int64_t kCacheBytes = 1 << 20;  // half of a second-level cache
constexpr int64_t kMostPanels = 4;        // per group
constexpr int64_t kPadFloats = 80;        // between stacks, so that they start in different cache sets

/// The part of `strips` in a panel.
Strips strips_in_panel(Strips strips, int64_t panel) {
  const int64_t first = panel * kPanelStrips;
  return {std::max<int64_t>(strips.begin - first, 0), std::min<int64_t>(strips.end - first, kPanelStrips)};
}

int remainder_of(const Segment& segment) { return static_cast<int>(segment.steps % kTileSteps); }

/// Rows processed together: with more, they and their sums take more of the cache than a second pass over the weights
/// costs.
int64_t rows_of_pass(const LinearPlan& plan) { return plan.levels > 1 ? 256 : 512; }

/// Panels of a group, limited by stacks that fit the cache.
int64_t panels_of_group(const Packing& packing, const LinearPlan& plan, int64_t rows) {
  if (rows * packing.padded_k() * 2 <= kCacheBytes) return 1;
  const int64_t stack = plan.levels * rows * kPanel * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kCacheBytes / stack, 1, kMostPanels);
}

/// Iterates over the slabs of a group of panels, then over the next groups.
struct Walk {
  Range panels;  // of all groups
  int64_t group = 1;
  size_t slabs = 0;
  int64_t first = 0;  // first panel of the current group
  int64_t panel = 0;
  size_t slab = 0;

  bool is_done() const { return first >= panels.end; }
  int64_t group_end() const { return std::min(first + group, panels.end); }
  Walk next() const {
    Walk then = *this;
    if (++then.panel < group_end()) return then;
    if (++then.slab == slabs) {
      then.slab = 0;
      then.first = group_end();
    }
    then.panel = then.first;
    return then;
  }
};

}  // namespace

LinearPlan LinearPlan::in_tiles() const {
  LinearPlan tiled;
  tiled.levels = levels;
  tiled.slabs = {0};
  int64_t steps = 0;  // of the last slab
  const auto append = [&](const Segment& segment) {
    if (!tiled.segments.empty()) {
      const Segment& before = tiled.segments.back();
      const bool fits = steps + segment.steps <= kTiledSlabSteps && remainder_of(before) == remainder_of(segment);
      if (before.root >= 0 || !fits) {
        tiled.slabs.push_back(static_cast<int64_t>(tiled.segments.size()));
        steps = 0;
      }
    }
    tiled.segments.push_back(segment);
    steps += segment.steps;
  };
  for (Segment left : segments) {
    for (; left.steps > kTiledSlabSteps; left.opens = false) {
      Segment first = left;
      first.steps = kTiledSlabSteps;
      first.merges = 0;
      first.root = -1;
      append(first);
      left.begin += kTiledSlabSteps;
      left.steps -= kTiledSlabSteps;
    }
    append(left);
  }
  tiled.slabs.push_back(static_cast<int64_t>(tiled.segments.size()));
  return tiled;
}

int64_t LinearTask::tiled_scratch_floats() const {
  const int64_t rows = std::min(x.rows, rows_of_pass(plan));
  return kMostPanels * plan.levels * (rows * kPanel + kPadFloats);
}

void LinearTask::run_tiled(Strips strips, const std::byte* arranged, float* scratch) const {
  const int64_t rows = x.used_rows(), passes = (rows + rows_of_pass(plan) - 1) / rows_of_pass(plan);
  if (rows == 0 || strips.size() <= 0) return;
  if (rows <= kMostStreamedRows) return stream_tiled({0, rows}, strips, arranged, scratch);
  for (int64_t pass = 0; pass < passes; ++pass) {
    walk_tiled({rows * pass / passes, rows * (pass + 1) / passes}, strips, arranged, scratch);
  }
}

bool LinearTask::groups_panels() const { return tiled != nullptr && x.rows > kMostStreamedRows; }

void LinearTask::walk_tiled(Range rows, Strips strips, const std::byte* arranged, float* scratch) const {
  TiledRows call = tiled_call(rows, arranged);
  const int64_t stack_floats = plan.levels * call.level_floats;
  Walk walk{.panels = {strips.begin / kPanelStrips, (strips.end + kPanelStrips - 1) / kPanelStrips},
            .group = panels_of_group(weight.packing, plan, rows.size()),
            .slabs = plan.slabs.size() - 1};
  walk.first = walk.panel = walk.panels.begin;
  while (!walk.is_done()) {
    const Walk next = walk.next();
    call.begin = plan.segments.data() + plan.slabs[walk.slab];
    call.end = plan.segments.data() + plan.slabs[walk.slab + 1];
    call.stack = scratch + (walk.panel - walk.first) * stack_floats;
    call.next_weights = next.is_done() ? nullptr : weights_of(strips, next.panel, next.slab);
    run_tiled_call(call, rows, walk.panel, strips);
    walk = next;
  }
}

void LinearTask::stream_tiled(Range rows, Strips strips, const std::byte* arranged, float* scratch) const {
  TiledRows call = tiled_call(rows, arranged);
  call.stack = scratch;
  const bool is_one_tile = rows.size() <= kTileSteps;
  for (int64_t panel = strips.begin / kPanelStrips; panel * kPanelStrips < strips.end; ++panel) {
    const std::byte* const weights = weights_of(strips, panel, 0);
    const int64_t stride = weight.packing.step_stride(panel);
    const bool is_whole = strips_in_panel(strips, panel).size() == weight.packing.strips_of_panel(panel);
    for (size_t slab = 0; slab + 1 < plan.slabs.size();) {
      call.begin = plan.segments.data() + plan.slabs[slab];
      // One tile of rows takes all consecutive slabs of one shape, up to a root.
      for (++slab; is_one_tile && slab + 1 < plan.slabs.size(); ++slab) {
        const Segment& next = plan.segments[plan.slabs[slab]];
        if ((&next)[-1].root >= 0 || remainder_of(next) != remainder_of(*call.begin)) break;
      }
      call.end = plan.segments.data() + plan.slabs[slab];
      const int64_t end = call.end[-1].begin + call.end[-1].steps;
      // The next slab, or panel, is adjacent in memory.
      call.next_weights = weights + (is_one_tile ? call.begin->begin * stride + kAheadBytes : end * stride);
      if (!is_whole) call.next_weights = nullptr;  // half of that memory is another worker's
      run_tiled_call(call, rows, panel, strips);
    }
  }
}

const std::byte* LinearTask::weights_of(Strips strips, int64_t panel, size_t slab) const {
  const Product whole = product_of(weight.packing, weight.data, panel, strips_in_panel(strips, panel));
  return whole.weights + plan.segments[plan.slabs[slab]].begin * whole.weight_stride;
}

TiledRows LinearTask::tiled_call(Range rows, const std::byte* arranged) const {
  TiledRows call;
  call.x_stride = arrange ? arranged_stride() : x.stride;
  call.x = (arrange ? arranged : x.data) + rows.begin * call.x_stride;
  call.rows = rows.size();
  call.level_floats = call.rows * kPanel + kPadFloats;
  return call;
}

void LinearTask::run_tiled_call(TiledRows& call, Range rows, int64_t panel, Strips strips) const {
  const Strips of = strips_in_panel(strips, panel);
  const Product whole = product_of(weight.packing, weight.data, panel, of);
  call.weights = whole.weights;
  call.weight_stride = whole.weight_stride;
  call.strips = whole.strips;
  tiled(call);
  const int root = call.end[-1].root;
  if (root >= 0) finish(root, call.stack, rows, panel * kPanel + of.begin * kStrip, call.strips);
}

}  // namespace lockstep::cpu
