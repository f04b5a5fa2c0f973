#include "runtime/backends/cpu/linear.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

constexpr int64_t kStepOfX = 4;  // bytes: a float32, or a pair of bfloat16

/// Slabs in the second-level cache while tiles of 16 rows or more are processed and prefetch the next ones.
constexpr size_t kSlabsOfManyTiles = 8;

/// The processing of rows beyond one stream: in tiles, each over some slabs of a panel at a time.
struct FewTiles {
  int64_t count = 1;
  int64_t first = 0;  // rows of tile 0; if larger than the others, it prefetches the next weights
  size_t slabs = 1;
  bool ahead = false;  // all tiles together prefetch the next slabs

  static FewTiles of(const Kernels& kernels, int64_t rows) {
    if (kernels.streamed_rows == 1) return {.count = tiles_of(rows)};
    // From this many rows on, four tiles of equal size hide the limit on a core's outstanding cache lines.
    constexpr int64_t kRowsToAskAhead = 16;
    if (rows >= kRowsToAskAhead) {
      return {.count = std::max<int64_t>(4, tiles_of(rows)), .slabs = kSlabsOfManyTiles, .ahead = true};
    }
    return {.count = 1 + tiles_of(rows - kFewRowsTile), .first = kFewRowsTile};
  }
  Range rows_of(int64_t tile, int64_t rows) const {
    if (first == 0) return {rows * tile / count, rows * (tile + 1) / count};
    if (tile == 0) return {0, first};
    const int64_t rest = rows - first, others = count - 1;
    return {first + rest * (tile - 1) / others, first + rest * tile / others};
  }
};

FewRowsFunction few_rows_for(const Kernels& kernels, const Packing& packing) {
  if (packing.pairs) return kernels.few_rows_pairs;
  if (packing.dtype == DType::kFloat32) return kernels.few_rows_f32;
  return packing.dtype == DType::kBFloat16 ? kernels.few_rows_bf16 : kernels.few_rows_f16;
}

/// Whether every worker has at least `fewest` panels.
bool has_panels(int64_t strips, int64_t fewest, int workers) {
  return (strips + kPanelStrips - 1) / kPanelStrips >= fewest * workers;
}

/// Number of panels per worker from which shares are whole panels. With few rows a product is limited by memory, and
/// two workers lose more time by reading alternate lines of a panel than one of them by reading half a panel more.
int64_t fewest_panels_for(int64_t rows) {
  constexpr int64_t kStreamingRows = 4;
  return rows <= kStreamingRows ? 4 : 8;
}

/// Prefetches a part of the next weights, because their first reader would wait for memory.
void ask_for(const std::byte* next, Range bytes) {
  constexpr int64_t kLine = 64;
  for (int64_t at = bytes.begin / kLine * kLine; at < bytes.end; at += kLine) __builtin_prefetch(next + at, 0, 2);
}

}  // namespace

int64_t sums_bytes(int64_t rows) { return tiles_of(rows) * kTileFloats * static_cast<int64_t>(sizeof(float)); }

Strips share_of_strips(int64_t strips, Part part, int64_t fewest_panels) {
  const bool whole = has_panels(strips, fewest_panels, part.workers);
  const int64_t unit = whole ? kPanelStrips : 1;
  const Share share = share_of((strips + unit - 1) / unit, part);
  return {share.begin * unit, std::min(share.end * unit, strips)};
}

Strips share_of_product(int64_t strips, int64_t rows, Part part) {
  return share_of_strips(strips, part, fewest_panels_for(rows));
}

bool shares_are_panels(int64_t strips, int64_t rows, int workers) {
  return has_panels(strips, fewest_panels_for(rows), workers);
}

std::span<const std::byte> first_of_share(Strips share, std::span<const std::byte> weights, int64_t panel_bytes) {
  constexpr size_t kMostBytes = size_t{64} << 10;                       // a small part of a second-level cache
  if (share.size() <= 0 || share.begin % kPanelStrips != 0) return {};  // nothing, or a share of single strips
  const std::span<const std::byte> own = weights.subspan(static_cast<size_t>(share.begin / kPanelStrips * panel_bytes));
  return own.first(std::min(kMostBytes, own.size()));
}

Product product_of(const Packing& packing, const std::byte* weights, int64_t panel, Strips strips) {
  Product product;
  product.weights = weights + packing.panel_offset(panel) + strips.begin * packing.bytes_per_strip_step();
  product.weight_stride = packing.step_stride(panel);
  product.sums_stride = kPanel;
  product.strips = static_cast<int>(strips.end - strips.begin);
  return product;
}

void sum_rows(ProductFunction function, Product product, Range steps, int64_t rows, float* sums) {
  const int64_t tiles = tiles_of(rows);
  const std::byte* x = product.x + steps.begin * kStepOfX;
  product.stream_prefetch = stream_prefetch({.far = 4096, .near = 4096});
  const Product whole = product;
  product.weights += steps.begin * product.weight_stride;
  for (int64_t begin = 0; begin < steps.size(); begin += kSlabSteps) {
    product.steps = std::min(kSlabSteps, steps.size() - begin);
    product.opens = begin == 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const Range of = rows_of_tile(rows, tile);
      product.x = x + of.begin * product.x_stride;
      product.rows = static_cast<int>(of.size());
      product.sums = sums + tile * kTileFloats;
      const bool is_routed = whole.routes != nullptr && begin + product.steps == steps.size();
      product.routes = is_routed ? whole.routes + of.begin : nullptr;
      product.places = is_routed ? whole.places + of.begin : nullptr;
      product.left = is_routed ? whole.left : nullptr;
      function(product);
    }
    product.weights += product.steps * product.weight_stride;
    x += product.steps * kStepOfX;
  }
}

ProductFunction product_for(const Kernels& kernels, const Packing& packing) {
  if (packing.pairs) return kernels.product_pairs;
  if (packing.dtype == DType::kFloat32) return kernels.product_f32;
  return packing.dtype == DType::kBFloat16 ? kernels.product_bf16 : kernels.product_f16;
}

TileResult LinearResult::result_at(int64_t row, int64_t column) const {
  return {.columns = result.columns - column,
          .bias = bias != nullptr ? bias + column * static_cast<int64_t>(size_of(bias_type)) : nullptr,
          .bias_type = bias_type,
          .dst = result.at(row, column),
          .dst_stride = result.stride,
          .dst_type = result.dtype};
}

void LinearResult::finish(int root, const float* sums, Range of, int64_t column, int64_t strips) const {
  TileResult tile = result_at(of.begin, column);
  tile.sums = sums;
  tile.rows = static_cast<int>(of.size());
  tile.columns = std::min(strips * kStrip, tile.columns);
  tile.dst += root * result.plane_stride();
  kernels->finish_tile(tile);
}

LinearTask LinearTask::make(const Kernels& kernels, PackedWeight weight, LinearPlan plan, Tensor x, Tensor result) {
  LinearTask task;
  task.kernels = &kernels;
  task.weight = weight;
  task.tiled = weight.packing.pairs ? kernels.tiled_pairs : nullptr;
  if (task.tiled != nullptr) {
    task.plan = plan.in_tiles();
  } else {
    task.plan = kernels.joins_leaves ? plan.in_pairs() : plan.in_short_slabs();
  }
  task.x = x;
  task.result = result;
  task.product = product_for(kernels, weight.packing);
  task.few_rows = few_rows_for(kernels, weight.packing);
  task.prefetch = stream_prefetch();
  task.arrange = needs_arranging(weight.packing, x.dtype) || task.collides();
  return task;
}

int64_t LinearTask::arranged_bytes() const { return arrange ? x.rows * arranged_stride() : 0; }

int64_t LinearTask::arranged_stride() const {
  // Rows at distances of a multiple of 4 KiB would share few sets of the first-level cache.
  const int64_t bytes = cpu::arranged_bytes(weight.packing);
  return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

bool LinearTask::collides() const {
  if (x.rows < 4) return false;
  return tiled != nullptr ? x.stride % 1024 == 0 : x.stride % 4096 == 0 && x.rows <= kFewRows;
}

int64_t LinearTask::private_bytes() const {
  if (tiled != nullptr) return tiled_scratch_floats() * static_cast<int64_t>(sizeof(float));
  const int64_t few = std::max<int64_t>(4, tiles_of(std::min(x.rows, kFewRows)));  // tiles
  return plan.levels * std::max(sums_bytes(x.rows), few * kFewRowsFloats * static_cast<int64_t>(sizeof(float)));
}

void LinearTask::arrange_rows(std::byte* arranged, Part part) const {
  const Share share = share_of(x.used_rows(), part);
  for (int64_t row = share.begin; row < share.end; ++row) {
    arrange_row(*kernels, weight.packing, x.const_row(row), arranged + row * arranged_stride());
  }
}

void LinearTask::arrange_made(ConstRow row, std::byte* to) const { arrange_row(*kernels, weight.packing, row, to); }

std::span<const std::byte> LinearTask::first_weights(Part part) const {
  const Packing& packing = weight.packing;
  return first_of_share(share(part), {weight.data, static_cast<size_t>(packing.bytes_of_part())},
                        packing.panel_offset(1));
}

bool LinearTask::has_panels_to_steal(int workers) const {
  return shares_are_panels(strips(), x.rows, workers) && !groups_panels();
}

void LinearTask::run(const std::byte* arranged, std::byte* private_scratch, Strips strips) const {
  if (plan.segments.empty()) return;
  auto* const sums = reinterpret_cast<float*>(private_scratch);
  for_halves(weight.packing.strips(), has_halves, strips, [&](Strips of_half) {
    if (tiled != nullptr) return run_tiled(of_half, arranged, sums);
    if (x.used_rows() <= kernels->streamed_rows) return stream(of_half, arranged, sums);
    for_panels(of_half, [&](int64_t panel, Strips of_panel) { run_panel(panel, of_panel, arranged, sums); });
  });
}

void LinearTask::run_panel(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const {
  const Packing& packing = weight.packing;
  const int64_t rows = x.used_rows();
  if (rows <= kFewRows) return run_few_rows(panel, strips, arranged, sums);
  const int64_t tiles = tiles_of(rows);
  const std::byte* x_data = arrange ? arranged : x.data;
  Product tile = product_of(packing, weight.data, panel, strips);
  tile.x_stride = arrange ? arranged_stride() : x.stride;
  const int64_t column = panel * kPanel + strips.begin * kStrip;
  const std::byte* weights = tile.weights;
  tile.dst_stride = result.stride;
  tile.dst_type = result.dtype;
  for (size_t slab = 0; slab + 1 < plan.slabs.size(); ++slab) {
    const Segment& last = plan.segments[plan.slabs[slab + 1] - 1];
    const int64_t end = last.begin + last.steps + last.next_steps;
    const int64_t bytes = (end - plan.segments[plan.slabs[slab]].begin) * tile.weight_stride;
    for (int64_t t = 0; t < tiles; ++t) {
      // The next slab, or panel, is adjacent in memory.
      if (tiles > 1) ask_for(weights + end * tile.weight_stride, {bytes * t / tiles, bytes * (t + 1) / tiles});
      const Range of = rows_of_tile(rows, t);
      tile.rows = static_cast<int>(of.size());
      const std::byte* x_rows = x_data + of.begin * tile.x_stride;
      float* stack = sums + t * plan.levels * kTileFloats;
      for (int64_t s = plan.slabs[slab]; s < plan.slabs[slab + 1]; ++s) {
        // Copied by field: a copy of the whole struct would stall on the stores just made.
        const Segment& segment = plan.segments[s];
        tile.weights = weights + segment.begin * tile.weight_stride;
        tile.x = x_rows + segment.begin * kStepOfX;
        run_segment(segment, tile, stack, of.begin, column);
      }
    }
  }
}

bool LinearTask::rounds_in_product(int64_t column, int strips) const {
  return bias == nullptr && column + strips * kStrip <= weight.packing.n && result.dtype != DType::kFloat16;
}

void LinearTask::run_segment(const Segment& segment, Product& tile, float* stack, int64_t row, int64_t column) const {
  float* top = stack + segment.level * kTileFloats;
  tile.steps = segment.steps;
  tile.next_steps = segment.next_steps;
  tile.sums = top;
  tile.opens = segment.opens;
  tile.left = segment.merges > 0 ? top - kTileFloats : nullptr;
  tile.further = segment.merges - 1;
  const bool is_complete = segment.root >= 0;
  std::byte* const dst = is_complete ? result.at(row, column) + segment.root * result.plane_stride() : nullptr;
  tile.dst = is_complete && rounds_in_product(column, tile.strips) ? dst : nullptr;
  product(tile);
  if (is_complete && tile.dst == nullptr) {
    finish(segment.root, top - segment.merges * kTileFloats, {row, row + tile.rows}, column, tile.strips);
  }
}

void LinearTask::stream(Strips strips, const std::byte* arranged, float* sums) const {
  for_streams(strips, [&](int64_t panel, Strips of_panel, int64_t panels) {
    FewRows call = few_rows_call(panel, of_panel, arranged, sums);
    call.begin = plan.streamed.data();
    call.end = call.begin + plan.streamed.size();
    call.panels = panels;
    few_rows(call);
  });
}

void LinearTask::run_few_rows(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const {
  const int64_t rows = x.used_rows();
  const FewTiles tiles = FewTiles::of(*kernels, rows);
  const FewRows all = few_rows_call(panel, strips, arranged, sums);
  FewRows call = all;
  const size_t slabs = plan.few_slabs.size() - 1;
  for (size_t slab = 0, next = 0; slab < slabs; slab = next) {
    next = std::min(slabs, slab + tiles.slabs);
    call.begin = plan.few.data() + plan.few_slabs[slab];
    call.end = plan.few.data() + plan.few_slabs[next];
    for (int64_t tile = 0; tile < tiles.count; ++tile) {
      const Range of = tiles.rows_of(tile, rows);
      call.rows = static_cast<int>(of.size());
      call.x = all.x + of.begin * all.x_stride;
      call.result.dst = all.result.dst + of.begin * all.result.dst_stride;
      call.stack = sums + tile * plan.levels * kFewRowsFloats;
      if (tiles.ahead) {
        call.ahead = (call.end[-1].begin + call.end[-1].steps - call.begin->begin) * call.weight_stride;
        call.ahead_stride = call.weight_stride / tiles.count;
        call.ahead_offset = tile * call.ahead_stride;
      }
      few_rows(call);
    }
  }
}

FewRows LinearTask::few_rows_call(int64_t panel, Strips strips, const std::byte* arranged, float* stack) const {
  const Product whole = product_of(weight.packing, weight.data, panel, strips);
  FewRows call;
  call.weights = whole.weights;
  call.weight_stride = whole.weight_stride;
  call.panel_stride = weight.packing.panel_offset(1);
  call.x_stride = arrange ? arranged_stride() : x.stride;
  call.x = arrange ? arranged : x.data;
  call.stack = stack;
  call.result = result_at(0, panel * kPanel + strips.begin * kStrip);
  call.root_stride = result.plane_stride();
  call.rows = static_cast<int>(x.used_rows());
  call.strips = whole.strips;
  call.stream_prefetch = prefetch;
  return call;
}

}  // namespace lockstep::cpu
