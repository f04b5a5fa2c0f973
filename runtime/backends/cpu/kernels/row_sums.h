// The sums of a tile of rows: merging along the tree of a plan, and rounding of complete sums. Included by the
// isa_*.cpp and int8_*.cpp files after lanes.h.
//
//   end of a leaf   sums = top of the stack + sums, as often as the leaf completes a subtree
//   end of a root   sums, rounded, are stored as the result
#pragma once

#include "runtime/backends/cpu/kernels/elements.h"
#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// Stores sixteen complete sums as elements of a tensor's row, starting at `column`, as bfloat16 or float32.
LOCKSTEP_LANES_INLINE void round_to_row(std::byte* row, int64_t column, bool is_narrow, Lanes sums) {
  if (is_narrow) {
    store(reinterpret_cast<BFloat16*>(row) + column, sums);
  } else {
    store(reinterpret_cast<float*>(row) + column, sums);
  }
}

/// The result of a linear operation: sums plus bias, rounded once.
static void finish_tile(const TileResult& tile) {
  with_type(tile.dst_type, [&](auto d) {
    using D = typename decltype(d)::Type;
    for (int row = 0; row < tile.rows; ++row) {
      for (int64_t i = 0; i < tile.columns; i += kLanes) {
        const int64_t n = tile.columns - i;
        Lanes value = load(tile.sums + row * kPanel + i);
        if (tile.bias != nullptr) {
          with_type(tile.bias_type, [&](auto b) { value = value + read<typename decltype(b)::Type>(tile.bias, i, n); });
        }
        write<D>(tile.dst + row * tile.dst_stride, i, value, n);
      }
    }
  });
}

/// The part of a result from `column` on.
static TileResult result_from(TileResult result, int64_t column) {
  const auto bytes_before = [column](DType type) { return column * (type == DType::kFloat32 ? 4 : 2); };
  result.columns -= column;
  result.dst += bytes_before(result.dst_type);
  if (result.bias != nullptr) result.bias += bytes_before(result.bias_type);
  return result;
}

/// The accumulators of R rows times V strips of a plan. Those of the first `kHeld` strips are in registers, the others
/// in memory: [R, kPanel] at the top of the stack.
template <int R, int V, int kHeld>
class RowSums {
 public:
  static constexpr bool kIsPartlyStored = kHeld < V;

  /// Sets all accumulators to 0.
  [[gnu::always_inline]] inline void open(float* top) {
    each([&](int r, int v, int at) {
      if (v < kHeld) {
        sums_[r][v] = zero();
      } else {
        store(top + at, zero());
      }
    });
  }
  /// Loads all accumulators stored by `close`.
  [[gnu::always_inline]] inline void resume(const float* top) {
    each([&](int r, int v, int at) {
      if (v < kHeld) sums_[r][v] = load(top + at);
    });
  }
  /// Stores all accumulators.
  [[gnu::always_inline]] inline void close(float* top) {
    each([&](int r, int v, int at) {
      if (v < kHeld) store(top + at, sums_[r][v]);
    });
  }
  /// One accumulator.
  [[gnu::always_inline]] inline Lanes get(int r, int v, const float* top) const {
    return v < kHeld ? sums_[r][v] : load(top + r * kPanel + v * kLanes);
  }
  [[gnu::always_inline]] inline void set(int r, int v, float* top, Lanes sum) {
    if (v < kHeld) {
      sums_[r][v] = sum;
    } else {
      store(top + r * kPanel + v * kLanes, sum);
    }
  }
  /// After the last segment of a leaf: completes its subtrees, then stores a root's result or the new top of the stack.
  [[gnu::always_inline]] inline void end_leaf(const PanelStream& p, int64_t panel, int merges, int root, float* top) {
    for (int i = 0; i < merges; ++i, top -= kFewRowsFloats) merge(top);
    if (root >= 0) {
      finish(p, panel, root, top);
    } else {
      close(top);
    }
  }

 private:
  template <typename Work>
  [[gnu::always_inline]] static inline void each(Work work) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) work(r, v, r * kPanel + v * kLanes);
    }
  }
  /// Adds the sums to those below `top`.
  [[gnu::always_inline]] inline void merge(float* top) {
    each([&](int r, int v, int at) {
      const Lanes under = load(top - kFewRowsFloats + at);
      if (v < kHeld) {
        sums_[r][v] = under + sums_[r][v];
      } else {
        store(top - kFewRowsFloats + at, under + load(top + at));
      }
    });
  }
  /// Rounds complete sums into the result of `root`.
  [[gnu::always_inline]] inline void finish(const PanelStream& p, int64_t panel, int root, float* top) {
    const bool is_narrow = p.result.dst_type == DType::kBFloat16;
    const int64_t column = panel * kPanel;
    if (p.result.bias != nullptr || p.result.columns - column < V * kLanes || p.result.dst_type == DType::kFloat16) {
      close(top);
      return finish_through_stack(p, panel, root, top);
    }
    std::byte* const row = p.result.dst + root * p.root_stride;
    each([&](int r, int v, int at) {
      const Lanes sum = v < kHeld ? sums_[r][v] : load(top + at);
      round_to_row(row + r * p.result.dst_stride, column + v * kLanes, is_narrow, sum);
    });
  }
  /// The same from the sums at `top`: with a bias, for fewer columns or for other types.
  [[gnu::noinline]] static void finish_through_stack(const PanelStream& p, int64_t panel, int root, const float* top) {
    TileResult result = result_from(p.result, panel * kPanel);
    result.sums = top;
    result.rows = R;
    if (result.columns > V * kLanes) result.columns = V * kLanes;
    result.dst += root * p.root_stride;
    finish_tile(result);
  }

  Lanes sums_[R][kHeld > 0 ? kHeld : 1];
};

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
