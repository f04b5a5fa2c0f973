// Matrix products over packed weights. A plan (linear_plan.h) cuts K into segments once; every row and every panel of a
// product then takes the same sums in the same order, whether there is one row or a thousand, one worker or many.
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

/// Strips of a packed matrix, or of one of its panels.
using Strips = Range;
/// What a worker computes of a product of so many strips, and of what is made of its columns in the same stage.
/// Whole panels where every worker has so many, so that each reads one stream; else single strips.
Strips share_of_strips(int64_t strips, Part part, int64_t fewest_panels = 8);
/// The same for a product of so many rows.
Strips share_of_product(int64_t strips, int64_t rows, Part part);
/// Whether those shares are whole panels.
bool shares_are_panels(int64_t strips, int64_t rows, int workers);
/// What a worker with such a share reads first of `weights`, whose panels are `panel_bytes` each.
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

/// The same for work that takes many panels at once: calls `work(first panel, strips of each panel, panels)`.
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

/// Calls `work(strips)` for a worker's `share`, of a matrix of so many strips or of each of its halves.
template <typename Work>
void for_halves(int64_t strips, bool has_halves, Strips share, Work work) {
  work(share);
  if (has_halves) work(Strips{strips / 2 + share.begin, strips / 2 + share.end});
}

/// Rows pass in tiles of equal size, one more or less.
constexpr int64_t tiles_of(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }
constexpr Range rows_of_tile(int64_t rows, int64_t tile) {
  if (rows <= kTileRows) return {0, rows};  // a decode step has no time for divisions
  return {rows * tile / tiles_of(rows), rows * (tile + 1) / tiles_of(rows)};
}

/// Steps of up to so many rows take `LinearPlan::few`.
constexpr int64_t kFewRows = 36;

ProductFunction product_for(const Kernels& kernels, const Packing& packing);
/// The product with `strips` of a panel, from step 0 on; x, rows and sums are left to be set.
Product product_of(const Packing& packing, const std::byte* weights, int64_t panel, Strips strips);
/// Sums `steps` (at least one) for all `rows` of product.x into `sums`, [tiles, kTileRows, kPanel]; or, where the
/// product has routes (and left, and places), through `sums` to where those say, when the sums are complete.
void sum_rows(ProductFunction function, Product product, Range steps, int64_t rows, float* sums);
/// Bytes of such sums.
int64_t sums_bytes(int64_t rows);

/// Where the sums of a product go, with the bias that is added before they are rounded.
struct LinearResult {
  const Kernels* kernels = nullptr;
  const std::byte* bias = nullptr;  // [n] of `bias_type`, or none
  DType bias_type = DType::kFloat32;
  Tensor result;  // [roots, rows, n]

 protected:
  /// Of root 0, the columns from `column` on of the rows from `row` on; which sums is left to be set.
  TileResult result_at(int64_t row, int64_t column) const;
  /// Rounds complete sums, [rows of `of`, kPanel], of so many strips from `column` on.
  void finish(int root, const float* sums, Range of, int64_t column, int64_t strips) const;
};

/// A product that is ready to run.
struct LinearTask : LinearResult {
  ProductFunction product = nullptr;
  FewRowsFunction few_rows = nullptr;
  TiledFunction tiled = nullptr;  // if set, it stands for the other two (linear_tiles.cpp)
  PackedWeight weight;
  LinearPlan plan;
  Tensor x;                 // [rows, k]
  bool arrange = false;     // x is first converted or padded into scratch
  bool has_halves = false;  // a worker takes the same share of both halves of n (each whole strips): gate and up

  static LinearTask make(const Kernels& kernels, PackedWeight weight, LinearPlan plan, Tensor x, Tensor result);

  /// Bytes of the scratch that `arrange_rows` fills, shared by the workers.
  int64_t arranged_bytes() const;
  /// Bytes from one arranged row to the next.
  int64_t arranged_stride() const;
  /// Bytes of scratch that each worker needs for itself.
  int64_t private_bytes() const;

  /// Lays x out as the kernels read it; only where `arrange` says so, and before `run`.
  void arrange_rows(std::byte* arranged, Part part) const;
  /// The same for one row of `x.dtype` that stands elsewhere; not needed where the kernels read it as it is.
  void arrange_made(ConstRow row, std::byte* to) const;
  bool reads_rows_as_made() const { return !needs_arranging(weight.packing, x.dtype); }
  /// The first weights that the part will read.
  std::span<const std::byte> first_weights(Part part) const;
  /// Strips of the columns, or of each of their halves.
  int64_t strips() const { return weight.packing.strips() / (has_halves ? 2 : 1); }
  /// What the part computes of them.
  Strips share(Part part) const { return share_of_product(strips(), x.rows, part); }
  /// Whether a panel of a share may as well be computed by another worker.
  bool has_panels_to_steal(int workers) const;
  /// Computes some strips, of a share.
  void run(const std::byte* arranged, std::byte* private_scratch, Strips strips) const;

 private:
  /// Whether rows of x lie so that several of them would share few sets of the first-level cache.
  bool collides() const;
  bool rounds_in_product(int64_t column, int strips) const;
  void run_panel(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const;
  void run_segment(const Segment& segment, Product& tile, float* stack, int64_t row, int64_t column) const;
  void run_tiled(Strips strips, const std::byte* arranged, float* scratch) const;
  /// Whether several panels of a share pass together.
  bool groups_panels() const;
  void stream_tiled(Range rows, Strips strips, const std::byte* arranged, float* scratch) const;
  void walk_tiled(Range rows, Strips strips, const std::byte* arranged, float* scratch) const;
  TiledRows tiled_call(Range rows, const std::byte* arranged) const;
  const std::byte* weights_of(Strips strips, int64_t panel, size_t slab) const;
  void run_tiled_call(TiledRows& call, Range rows, int64_t panel, Strips strips) const;
  int64_t tiled_scratch_floats() const;
  /// For so few rows that weights pass in one stream: neighbouring panels in one call.
  void stream(Strips strips, const std::byte* arranged, float* sums) const;
  void run_few_rows(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const;
  /// All rows times some strips of a panel; which segments is left to be set.
  FewRows few_rows_call(int64_t panel, Strips strips, const std::byte* arranged, float* stack) const;
};

}  // namespace lockstep::cpu
