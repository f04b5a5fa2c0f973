// Products of bytes with AMX: 16 rows and 4 strips, one group at a time.
//
//   integers [16, 64]    with AMX, from 0 on, then through the first-level cache
//   sums [16, 64]     += what `Dots::end` makes of (integers + opening)     while AMX computes the next group
//
// Included by bytes_amx.cpp after product_coded.h.
#pragma once

#include "runtime/backends/cpu/kernels/dots_bytes.h"
#include "runtime/backends/cpu/kernels/tile_unit.h"

#if defined(__AMX_INT8__)

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// The integer sums of a group, stored by the unit.
struct TiledSums {
  alignas(64) int32_t integers[kTiledCodedRows * kPanel];
  const std::byte* scales = nullptr;  // of w; null: empty
  int64_t group = 0;
};

template <int V>
static void end_tiled_group(const GroupProduct& p, const Dots::Rule& rule, const TiledSums& done) {
  Dots::with_offset(
      p.format.offset, [&](auto tag) __attribute__((always_inline)) {
        constexpr GroupOffset kOffset = decltype(tag)::kOffset;
        Lanes scales[V];
        Words offsets[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          scales[v] = Dots::scale_of(rule, as_floats(load_words(done.scales + v * kLineBytes)));
          offsets[v] =
              kOffset == GroupOffset::kNone ? splat_word(0) : load_words(done.scales + p.step_stride + v * kLineBytes);
        }
        for (int r = 0; r < p.x.rows; ++r) {
          const Integers opening = Dots::open(rule, p.x, r, done.group);
          float* const to = p.sums + r * kPanel;
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) {
            Integers dots;
            __builtin_memcpy(&dots, done.integers + r * kPanel + v * kLanes, sizeof dots);
            dots = dots + opening;
            store(to + v * kLanes,
                  Dots::end<kOffset, 1>(p.x, r, done.group, &dots, scales[v], offsets[v], load(to + v * kLanes)));
          }
        }
      });
}

template <int V>
static void tiled_strips(const GroupProduct& p) {
  using Sums = WideSums<MultiplyBytes, V>;
  const Dots::Rule rule(p.format, p.dots);
  TiledSums two[2];
  TiledSums* now = &two[0];
  TiledSums* before = &two[1];
  const std::byte* w = p.weights;
  const std::byte* x = p.x.steps;
  const int64_t end_lines = p.format.offset == GroupOffset::kNone ? 1 : 2;
  LinesAhead ahead{p.next, p.next_lines};
  int configured = -1;
  for (int r = 0; p.opens && r < p.x.rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(p.sums + r * kPanel + v * kLanes, zero());
  }
  for (int64_t group = 0; group < p.groups; ++group) {
    const int64_t steps = group + 1 < p.groups ? p.group_steps : p.last_steps;
    const int last_steps = static_cast<int>(steps % kTileSide);
    if (last_steps != configured) configure_wide(p.x.rows, configured = last_steps);
    Sums::open();
    Sums::add(w, p.step_stride, x, p.x.stride, steps, ahead);
    if (before->scales != nullptr) end_tiled_group<V>(p, rule, *before);
    Sums::close(now->integers, kPanel);
    now->scales = w + steps * p.step_stride;
    now->group = group;
    w += (steps + end_lines) * p.step_stride;
    x += steps * kStepBytes;
    TiledSums* const free = before;
    before = now;
    now = free;
  }
  if (before->scales != nullptr) end_tiled_group<V>(p, rule, *before);
  release();
}

/// See CodedKernels::tiled_product.
static void tiled_group_product(const GroupProduct& p) {
  switch (p.strips) {
    case 1: return tiled_strips<1>(p);
    case 2: return tiled_strips<2>(p);
    case 3: return tiled_strips<3>(p);
    default: return tiled_strips<4>(p);
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA

#endif
