// Products with weights in codes: up to 6 rows times 4 strips, for a range of groups or for all leaves of a plan.
// Included by the floats_*.cpp and bytes_*.cpp files after their dots_*.h.
#pragma once

#include <type_traits>

#if !defined(LOCKSTEP_CPU_DOTS)  // so that this header compiles alone
#include "runtime/backends/cpu/kernels/dots_floats.h"
#endif
#include "runtime/backends/cpu/kernels/coded.h"
#include "runtime/backends/cpu/kernels/prefetch.h"
#include "runtime/backends/cpu/kernels/row_sums.h"
#include "runtime/backends/cpu/kernels/words.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

#if defined(__AVX512F__)
constexpr bool kHoldsSums = true;  // there are enough registers
#else
constexpr bool kHoldsSums = false;
#endif

/// Sums of R rows. With more than two rows of integers they are kept in memory between groups, because those of the
/// group need the registers.
template <int R, int D, int V>
using GroupSums = RowSums<R, V, kHoldsSums && R * D <= 3 ? V : 0>;

/// Stored scales, or minima, of V strips.
template <int V>
LOCKSTEP_LANES_INLINE void load_scales(ScaleType type, const std::byte* p, Lanes (&to)[V]) {
  if (type == ScaleType::kFloat16) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) to[v] = load(reinterpret_cast<const Float16*>(p) + v * kLanes);
  } else if (type == ScaleType::kBFloat16) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) to[v] = load(reinterpret_cast<const BFloat16*>(p) + v * kLanes);
  } else if (type == ScaleType::kFloat32) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) to[v] = load(reinterpret_cast<const float*>(p) + v * kLanes);
  } else {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) to[v] = power_of_two(widen_bytes(p + v * kLanes));
  }
}

/// Stored offsets of V strips, as `Dots::end` reads them.
template <GroupOffset kOffset, int V>
LOCKSTEP_LANES_INLINE void load_offsets(const WeightFormat& format, DotKind dots, const std::byte* p, Words (&to)[V]) {
  if constexpr (kOffset == GroupOffset::kMinima) {
    Lanes minima[V];
    load_scales<V>(format.scale, p, minima);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) to[v] = as_words(minima[v]);
  } else if constexpr (kOffset == GroupOffset::kZeros) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const Words zeros = format.bits == 4 ? widen_bytes(p + v * kLanes) : widen_halves(p + v * kLanes * 2);
      to[v] = Dots::zeros_of(format, dots, zeros);
    }
  } else {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) to[v] = splat_word(0);
  }
}

/// Where the scales and offsets of the strips of a call are, in bytes after a group's lines.
struct GroupEnd {
  int64_t scales, offsets, bytes;  // of all strips

  [[gnu::always_inline]] explicit GroupEnd(const CodedWeights& w)
      : scales(w.first_strip * kStrip * w.scale_bytes()),
        offsets(kStrip * (w.panel_strips * w.scale_bytes() + w.first_strip * w.offset_bytes())),
        bytes(w.panel_strips * kStrip * (w.scale_bytes() + w.offset_bytes())) {}
};

/// The prefetch distance while codes are expanded; may reach beyond their end.
constexpr int64_t kExpandedAheadBytes = 2048;

/// Adds the lines of one group, in codes, to the sums of R rows of integers and V strips.
template <int R, int V, typename Code>
LOCKSTEP_LANES_INLINE void add_lines(const Code& code, const CodedWeights& w, const std::byte* line, int64_t lines,
                                     const std::byte* x, int64_t x_stride, const StreamPrefetch& ahead,
                                     Dots::Sum (&sums)[V][R]) {
  const int64_t stride = w.panel_strips * int64_t{kLineBytes};
  line += w.first_strip * kLineBytes;
  for (int64_t i = 0; i < lines; ++i, line += stride, x += Code::kSteps * 4) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      Words steps[Code::kSteps];
      code.steps(line + v * kLineBytes, steps);
      if (ahead.far != 0) prefetch_stream<kLineBytes>(line + v * kLineBytes, ahead);
#pragma GCC unroll 4
      for (int s = 0; s < Code::kSteps; ++s) {
        const auto step = Dots::step_of(steps[s]);
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) sums[v][r] = Dots::add(sums[v][r], step, Dots::broadcast(x + r * x_stride + s * 4));
      }
    }
  }
}

/// Opens the sums of R rows of integers.
template <int R, int V>
LOCKSTEP_LANES_INLINE void open_group(const Dots::Rule& rule, const ArrangedRows& x, int64_t group,
                                      Dots::Sum (&dots)[V][R]) {
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    const Dots::Sum opening = Dots::open(rule, x, r, group);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) dots[v][r] = opening;
  }
}

/// Adds complete sums of a group to those of R rows, each of D rows of integers.
template <GroupOffset kOffset, int R, int D, int V>
LOCKSTEP_LANES_INLINE void end_group(const Dots::Rule& rule, const ArrangedRows& x, int64_t group,
                                     const Dots::Sum (&dots)[V][R * D], const Lanes (&scales)[V],
                                     const Words (&offsets)[V], GroupSums<R, D, V>& sums, float* top) {
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Lanes scale = Dots::scale_of(rule, scales[v]);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      sums.set(r, v, top,
               Dots::end<kOffset, D>(x, r * D, group, &dots[v][r * D], scale, offsets[v], sums.get(r, v, top)));
    }
  }
  // Keeps the compiler from holding stored values in registers that the next group's sums need.
  if constexpr (GroupSums<R, D, V>::kIsPartlyStored) asm volatile("" ::: "memory");
}

template <int R, int D, int V, typename Code>
LOCKSTEP_LANES_INLINE void add_coded_groups(const Code& code, const CodedWeights& w, const GroupEnd& end,
                                            const CodedFewRows& p, const CodedSegment& leaf, GroupSums<R, D, V>& sums,
                                            float* top) {
  const ArrangedRows& x = p.x;
  const StreamPrefetch ahead = p.stream_prefetch;
  const Dots::Rule rule(w.format, w.dots);
  const WeightFormat format = w.format;
  const DotKind kind = w.dots;
  const std::byte* at = w.group_at(leaf.first_line, leaf.first_group);
  const std::byte* steps = x.steps + leaf.first_line * Code::kSteps * 4;
  const int64_t line_bytes = w.panel_strips * int64_t{kLineBytes};
  for (int64_t i = 0; i < leaf.groups; ++i) {
    const int64_t lines = i + 1 < leaf.groups ? w.group_lines : leaf.last_lines, group = leaf.first_group + i;
    Dots::Sum dots[V][R * D];
    open_group<R * D, V>(rule, x, group, dots);
    add_lines<R * D, V>(code, w, at, lines, steps, x.stride, ahead, dots);
    at += lines * line_bytes;
    Lanes scales[V];
    load_scales<V>(format.scale, at + end.scales, scales);
    Dots::with_offset(
        format.offset, [&](auto tag) __attribute__((always_inline)) {
          constexpr GroupOffset kOffset = decltype(tag)::kOffset;
          Words offsets[V];
          load_offsets<kOffset, V>(format, kind, at + end.offsets, offsets);
          end_group<kOffset, R, D, V>(rule, x, group, dots, scales, offsets, sums, top);
        });
    at += end.bytes;
    steps += lines * Code::kSteps * 4;
  }
}

template <int R, int D, int V, typename Code>
static void few_coded_rows(const CodedFewRows& p, const Code& code) {
  GroupSums<R, D, V> sums;
  CodedWeights of_panel = p.weights;
  const GroupEnd end(p.weights);
  for (int64_t panel = 0; panel < p.panels; ++panel, of_panel.data += p.panel_stride) {
    for (const CodedSegment* leaf = p.begin; leaf != p.end; ++leaf) {
      float* const top = p.stack + leaf->level * kFewRowsFloats;
      if (leaf->opens) {
        sums.open(top);
      } else {
        sums.resume(top);
      }
      add_coded_groups<R, D, V>(code, of_panel, end, p, *leaf, sums, top);
      sums.end_leaf(p, panel, leaf->merges, leaf->root, top);
    }
  }
}

/// `count` strips of `p` from `first` on, of its first panel.
static CodedFewRows strips_of(const CodedFewRows& p, int first, int count) {
  CodedFewRows part = p;
  part.weights.first_strip += first;
  part.weights.strips = count;
  part.stack += first * kLanes;
  part.result = result_from(p.result, first * kLanes);
  return part;
}

/// Strips whose sums the registers hold.
template <int R>
constexpr int kStripsAtOnce = kHoldsSums || R == 1 ? kPanelStrips : 1;

template <int R, int D>
static void few_coded_rows(const CodedFewRows& p) {
  constexpr int kStrips = kStripsAtOnce<R * D>;
  Dots::with_code(p.weights.format, [&](const auto& code) {
    if (p.weights.strips == kStrips) return few_coded_rows<R, D, kStrips>(p, code);
    CodedFewRows of_panel = p;
    of_panel.panels = 1;
    for (int64_t panel = 0; panel < p.panels; ++panel, of_panel.weights.data += p.panel_stride) {
      of_panel.result = result_from(p.result, panel * kPanel);
      for (int strip = 0; strip < p.weights.strips; ++strip) {
        few_coded_rows<R, D, 1>(strips_of(of_panel, strip, 1), code);
      }
    }
  });
}

/// See CodedKernels::few_rows.
static void few_coded_rows(const CodedFewRows& p) {
  if constexpr (Dots::kHasDigits) {
    if (p.weights.dots == DotKind::kDigits) return p.x.rows == 1 ? few_coded_rows<1, 3>(p) : few_coded_rows<2, 3>(p);
  }
  return p.x.rows == 1 ? few_coded_rows<1, 1>(p) : few_coded_rows<2, 1>(p);
}

/// Writes the lines of a group as steps.
template <typename Code>
LOCKSTEP_LANES_INLINE void expand_lines(const Code& code, const CodedWeights& w, const std::byte* at, int64_t lines,
                                        std::byte* to) {
  const int64_t stride = w.strips * int64_t{kLineBytes};
  for (int64_t line = 0; line < lines; ++line, at += w.panel_strips * kLineBytes, to += Code::kSteps * stride) {
    for (int v = 0; v < w.strips; ++v) {
      Words steps[Code::kSteps];
      const std::byte* const codes = at + (w.first_strip + v) * kLineBytes;
      code.steps(codes, steps);
      __builtin_prefetch(codes + kExpandedAheadBytes);
#pragma GCC unroll 8
      for (int s = 0; s < Code::kSteps; ++s) store_words(to + s * stride + v * kLineBytes, steps[s]);
    }
  }
}

/// Writes the scales and offsets at `at`, after a group's lines.
static void expand_end(const CodedWeights& w, const GroupEnd& end, const std::byte* at, std::byte* to) {
  const int64_t stride = w.strips * int64_t{kLineBytes}, size = kStrip * w.scale_bytes();
  const int64_t offset_size = kStrip * w.offset_bytes();
  for (int v = 0; v < w.strips; ++v) {
    Lanes scale[1];
    load_scales<1>(w.format.scale, at + end.scales + v * size, scale);
    store_words(to + v * kLineBytes, as_words(scale[0]));
    Dots::with_offset(w.format.offset, [&](auto tag) {
      constexpr GroupOffset kOffset = decltype(tag)::kOffset;
      if (kOffset == GroupOffset::kNone) return;
      Words offset[1];
      load_offsets<kOffset, 1>(w.format, w.dots, at + end.offsets + v * offset_size, offset);
      store_words(to + stride + v * kLineBytes, offset[0]);
    });
  }
}

/// See CodedKernels::expand.
static void expand(const CodedExpansion& p) {
  const CodedWeights& w = p.weights;
  const GroupEnd end(w);
  const std::byte* at = w.group_at(p.segment.first_line, p.segment.first_group);
  std::byte* to = p.to;
  const int64_t stride = w.strips * int64_t{kLineBytes};
  Dots::with_code(w.format, [&](const auto& code) {
    constexpr int kSteps = std::remove_reference_t<decltype(code)>::kSteps;
    for (int64_t group = 0; group < p.segment.groups; ++group) {
      const int64_t lines = group + 1 < p.segment.groups ? w.group_lines : p.segment.last_lines;
      expand_lines(code, w, at, lines, to);
      at += lines * w.panel_strips * kLineBytes;
      to += lines * kSteps * stride;
      expand_end(w, end, at, to);
      at += end.bytes;
      to += w.format.offset == GroupOffset::kNone ? stride : 2 * stride;
    }
  });
}

/// Adds one group in steps to the sums of R rows, each of D rows of integers.
template <int R, int D, int V>
LOCKSTEP_LANES_INLINE void add_group(const GroupProduct& p, const Dots::Rule& rule, const std::byte* w,
                                     const std::byte* x, const std::byte* next, int64_t steps, int64_t group,
                                     GroupSums<R, D, V>& sums) {
  const int64_t x_stride = p.x.stride, step_stride = p.step_stride, next_stride = p.next_stride;
  Dots::Sum dots[V][R * D];
  open_group<R * D, V>(rule, p.x, group, dots);
  for (int64_t step = 0; step < steps; ++step) {
    decltype(Dots::step_of(Words{})) weights[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) weights[v] = Dots::step_of(load_words(w + v * kLineBytes));
    __builtin_prefetch(next, 0, 2);
    next += next_stride;
#pragma GCC unroll 6
    for (int r = 0; r < R * D; ++r) {
      const Dots::X broadcast = Dots::broadcast(x + r * x_stride);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) dots[v][r] = Dots::add(dots[v][r], weights[v], broadcast);
    }
    w += step_stride;
    x += 4;
  }
  Lanes scales[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) scales[v] = as_floats(load_words(w + v * kLineBytes));
  Dots::with_offset(
      p.format.offset, [&](auto tag) __attribute__((always_inline)) {
        constexpr GroupOffset kOffset = decltype(tag)::kOffset;
        Words offsets[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          offsets[v] = kOffset == GroupOffset::kNone ? splat_word(0) : load_words(w + step_stride + v * kLineBytes);
        }
        end_group<kOffset, R, D, V>(rule, p.x, group, dots, scales, offsets, sums, p.sums);
      });
}

template <int R, int D, int V>
static void group_tile(const GroupProduct& p) {
  GroupSums<R, D, V> sums;
  if (p.opens) {
    sums.open(p.sums);
  } else {
    sums.resume(p.sums);
  }
  const Dots::Rule rule(p.format, p.dots);
  const int64_t end_lines = p.format.offset == GroupOffset::kNone ? 1 : 2;
  const std::byte* w = p.weights;
  const std::byte* x = p.x.steps;
  const std::byte* next = p.next;
  for (int64_t group = 0; group < p.groups; ++group) {
    const int64_t steps = group + 1 < p.groups ? p.group_steps : p.last_steps;
    add_group<R, D, V>(p, rule, w, x, next, steps, group, sums);
    next += steps * p.next_stride;
    w += (steps + end_lines) * p.step_stride;
    x += steps * 4;
  }
  sums.close(p.sums);
}

#if defined(__AVX512F__)

template <int R, int D>
static void group_strips(const GroupProduct& p) {
  switch (p.strips) {
    case 1: return group_tile<R, D, 1>(p);
    case 2: return group_tile<R, D, 2>(p);
    case 3: return group_tile<R, D, 3>(p);
    default: return group_tile<R, D, 4>(p);
  }
}

#else

/// With 16 half-width registers, rows take one strip at a time.
template <int R, int D>
static void group_strips(const GroupProduct& p) {
  GroupProduct part = p;
  for (int strip = 0; strip < p.strips; ++strip, part.weights += kLineBytes, part.sums += kLanes) {
    group_tile<R, D, 1>(part);
  }
}

#endif

/// See CodedKernels::product.
static void group_product(const GroupProduct& p) {
  if constexpr (Dots::kHasDigits) {
    if (p.dots == DotKind::kDigits) return p.x.rows == 1 ? group_strips<1, 3>(p) : group_strips<2, 3>(p);
  }
  switch (p.x.rows) {
    case 3: return group_strips<3, 1>(p);
    case 4: return group_strips<4, 1>(p);
    case 5: return group_strips<5, 1>(p);
    default: return group_strips<6, 1>(p);
  }
}

[[maybe_unused]] constexpr CodedKernels make_coded_kernels(void (*tiled)(const GroupProduct&) = nullptr,
                                                           CodeAttention attention = {}) {
  return {.few_rows = few_coded_rows,
          .expand = expand,
          .product = group_product,
          .tiled_product = tiled,
          .quantise = Dots::quantise,
          .magnitude = Dots::magnitude,
          .to_digits = Dots::to_digits,
          .attention = attention};
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
