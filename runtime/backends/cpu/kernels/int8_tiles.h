// Products of bytes with AMX: 16 rows and 4 strips, one group at a time.
//
//   integers [16, 64]    with AMX, from 0 on, then through the first-level cache
//   sums [16, 64]     += (integers + offset) · scale of w · scale of x      while AMX computes the next group
//
// Included by int8_amx.cpp after product_int8.h.
#pragma once

#include "runtime/backends/cpu/kernels/product_int8.h"
#include "runtime/backends/cpu/kernels/tile_unit.h"

#if defined(__AMX_INT8__)

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// The integer sums of a group, stored by the unit.
struct GroupSums {
  alignas(64) int32_t integers[kInt8TiledRows * kPanel];
  const std::byte* scales = nullptr;  // of w, [strips, kStrip] float32; null: empty
  int64_t group = 0;
};

template <int V>
static void add_scaled(const Int8Product& p, const GroupSums& done) {
  Lanes w_scale[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) w_scale[v] = load(reinterpret_cast<const float*>(done.scales + v * kInt8StripStep));
  for (int r = 0; r < p.operands.rows; ++r) {
    const Integers offset = splat_integer(of_row(p.operands.x_offsets, r, p.operands.x_stride)[done.group]);
    const Lanes x_scale = splat(of_row(p.operands.x_scales, r, p.operands.x_stride)[done.group]);
    float* const to = p.sums + r * kPanel;
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      Integers dots;
      __builtin_memcpy(&dots, done.integers + r * kPanel + v * kLanes, sizeof dots);
      store(to + v * kLanes, fma(to_floats(dots + offset) * w_scale[v], x_scale, load(to + v * kLanes)));
    }
  }
}

template <int V>
static void tiled_int8_strips(const Int8Product& p) {
  using Sums = WideSums<MultiplyBytes, V>;
  GroupSums two[2];
  GroupSums* now = &two[0];
  GroupSums* before = &two[1];
  const std::byte* w = p.operands.weights;
  const std::byte* x = p.operands.x;
  LinesAhead ahead{p.next, p.next_lines};
  int configured = -1;
  for (int r = 0; p.opens && r < p.operands.rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(p.sums + r * kPanel + v * kLanes, zero());
  }
  for (int64_t group = 0; group < p.groups; ++group) {
    const int64_t steps = group + 1 < p.groups ? p.operands.group_steps : p.last_steps;
    const int last_steps = static_cast<int>(steps % kTileSide);
    if (last_steps != configured) configure_wide(p.operands.rows, configured = last_steps);
    Sums::open();
    Sums::add(w, p.operands.step_stride, x, p.operands.x_stride, steps, ahead);
    if (before->scales != nullptr) add_scaled<V>(p, *before);
    Sums::close(now->integers, kPanel);
    now->scales = w + steps * p.operands.step_stride;
    now->group = group;
    w += (steps + 1) * p.operands.step_stride;
    x += steps * kInt8Columns;
    GroupSums* const free = before;
    before = now;
    now = free;
  }
  if (before->scales != nullptr) add_scaled<V>(p, *before);
  release();
}

/// See Int8Kernels::tiled_product.
static void tiled_int8_product(const Int8Product& p) {
  switch (p.operands.strips) {
    case 1: return tiled_int8_strips<1>(p);
    case 2: return tiled_int8_strips<2>(p);
    case 3: return tiled_int8_strips<3>(p);
    default: return tiled_int8_strips<4>(p);
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA

#endif
