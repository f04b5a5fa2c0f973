// Matrix products over packed weights. A plan (linear_plan.h) cuts K into segments once. Every row and panel then
// computes the same sums in the same order, for any number of rows and workers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/backends/cpu/linear_plan.h"
#include "runtime/backends/cpu/store.h"
#include "runtime/backends/cpu/tensor.h"
#include "runtime/backends/cpu/thread_team.h"

namespace lockstep::cpu {

/// A range of strips of a packed matrix, or of one of its panels.
using Strips = Range;
/// A worker's share of a product with `strips` strips, and of later work on its columns in the same stage. Whole panels
/// if every worker has at least `fewest_panels`, so that each reads one stream; otherwise single strips.
Strips share_of_strips(int64_t strips, Part part, int64_t fewest_panels = 8);
/// The share of a product with `rows` rows.
Strips share_of_product(int64_t strips, int64_t rows, Part part);
/// Whether those shares are whole panels.
bool shares_are_panels(int64_t strips, int64_t rows, int workers);
/// The first part of `weights` that a worker with this share reads; panels have `panel_bytes` each.
std::span<const std::byte> first_of_share(Strips share, std::span<const std::byte> weights, int64_t panel_bytes);
/// Calls `work(panel, strips of the panel)` for all of `strips`.
template <typename Work>
void for_panels(Strips strips, Work work) {
  while (strips.begin < strips.end) {
    const int64_t panel = strips.begin / kPanelStrips;
    const int64_t end = std::min(strips.end, (panel + 1) * kPanelStrips);
    work(panel, Strips{strips.begin - panel * kPanelStrips, end - panel * kPanelStrips});
    strips.begin = end;
  }
}

/// The same for work on many panels at once: calls `work(first panel, strips of each panel, panels)`.
template <typename Work>
void for_streams(Strips strips, Work work) {
  while (strips.begin < strips.end) {
    const int64_t panel = strips.begin / kPanelStrips, first = panel * kPanelStrips;
    const Strips of_panel{strips.begin - first, std::min<int64_t>(strips.end - first, kPanelStrips)};
    const int64_t panels = of_panel.size() == kPanelStrips ? strips.size() / kPanelStrips : 1;
    work(panel, of_panel, panels);
    strips.begin += panels * of_panel.size();
  }
}

/// Calls `work(strips)` for a worker's `share` of a matrix with this many strips, or of each of its halves.
template <typename Work>
void for_halves(int64_t strips, bool has_halves, Strips share, Work work) {
  work(share);
  if (has_halves) work(Strips{strips / 2 + share.begin, strips / 2 + share.end});
}

/// Rows are divided into tiles of equal size, up to one row.
constexpr int64_t tiles_of(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }
constexpr Range rows_of_tile(int64_t rows, int64_t tile) {
  if (rows <= kTileRows) return {0, rows};  // avoids a division in decode steps
  return {rows * tile / tiles_of(rows), rows * (tile + 1) / tiles_of(rows)};
}

/// Steps of up to this many rows use `LinearPlan::few`.
constexpr int64_t kFewRows = 36;

ProductFunction product_for(const Kernels& kernels, const Packing& packing);
/// The product with `strips` of a panel, from step 0 on; the caller sets x, rows and sums.
Product product_of(const Packing& packing, const std::byte* weights, int64_t panel, Strips strips);
/// Sums `steps` (at least one) for all `rows` of product.x into `sums`, [tiles, kTileRows, kPanel]. If the product has
/// routes (and left, and places), complete sums are added there instead.
void sum_rows(ProductFunction function, Product product, Range steps, int64_t rows, float* sums);
/// The size of such sums in bytes.
int64_t sums_bytes(int64_t rows);

/// The destination of a product's sums, with a bias added before rounding.
struct LinearResult {
  const Kernels* kernels = nullptr;
  const std::byte* bias = nullptr;  // [n] of `bias_type`, or none
  DType bias_type = DType::kFloat32;
  Tensor result;  // [roots, rows, n]

 protected:
  /// Of root 0, the columns from `column` on of the rows from `row` on; the caller sets the sums.
  TileResult result_at(int64_t row, int64_t column) const;
  /// Rounds complete sums, [rows of `of`, kPanel], for `strips` strips from `column` on.
  void finish(int root, const float* sums, Range of, int64_t column, int64_t strips) const;
};

/// A product, ready to run.
struct LinearTask : LinearResult {
  ProductFunction product = nullptr;
  FewRowsFunction few_rows = nullptr;
  StreamPrefetch prefetch;        // of few_rows
  TiledFunction tiled = nullptr;  // if set, replaces the other two (linear_tiles.cpp)
  PackedWeight weight;
  LinearPlan plan;
  Tensor x;                 // [rows, k]
  bool arrange = false;     // x must first be converted or padded into scratch
  bool has_halves = false;  // a worker takes the same share of both halves of n (each whole strips): gate and up

  static LinearTask make(const Kernels& kernels, PackedWeight weight, LinearPlan plan, Tensor x, Tensor result);

  /// Bytes of the shared scratch filled by `arrange_rows`.
  int64_t arranged_bytes() const;
  /// Bytes between arranged rows.
  int64_t arranged_stride() const;
  /// Bytes of scratch for each worker.
  int64_t private_bytes() const;

  /// Arranges x for the kernels; only if `arrange`, and before `run`.
  void arrange_rows(std::byte* arranged, Part part) const;
  /// Arranges one row of `x.dtype` stored elsewhere; not needed if the kernels read it directly.
  void arrange_made(ConstRow row, std::byte* to) const;
  bool reads_rows_as_made() const { return !needs_arranging(weight.packing, x.dtype); }
  /// The first weights that the part reads.
  std::span<const std::byte> first_weights(Part part) const;
  /// Strips of the columns, or of each of their halves.
  int64_t strips() const { return weight.packing.strips() / (has_halves ? 2 : 1); }
  /// The part's share of them.
  Strips share(Part part) const { return share_of_product(strips(), x.rows, part); }
  /// Whether another worker may compute panels of a share.
  bool has_panels_to_steal(int workers) const;
  /// Computes some strips of a share.
  void run(const std::byte* arranged, std::byte* private_scratch, Strips strips) const;

 private:
  /// Whether several rows of x would share few sets of the first-level cache.
  bool collides() const;
  bool rounds_in_product(int64_t column, int strips) const;
  void run_panel(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const;
  void run_segment(const Segment& segment, Product& tile, float* stack, int64_t row, int64_t column) const;
  void run_tiled(Strips strips, const std::byte* arranged, float* scratch) const;
  /// Whether several panels of a share are processed together.
  bool groups_panels() const;
  void stream_tiled(Range rows, Strips strips, const std::byte* arranged, float* scratch) const;
  void walk_tiled(Range rows, Strips strips, const std::byte* arranged, float* scratch) const;
  TiledRows tiled_call(Range rows, const std::byte* arranged) const;
  const std::byte* weights_of(Strips strips, int64_t panel, size_t slab) const;
  void run_tiled_call(TiledRows& call, Range rows, int64_t panel, Strips strips) const;
  int64_t tiled_scratch_floats() const;
  /// For few rows, whose weights are read in one stream: adjacent panels in one call.
  void stream(Strips strips, const std::byte* arranged, float* sums) const;
  void run_few_rows(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const;
  /// All rows times some strips of a panel; the caller sets the segments.
  FewRows few_rows_call(int64_t panel, Strips strips, const std::byte* arranged, float* stack) const;
};

}  // namespace lockstep::cpu
