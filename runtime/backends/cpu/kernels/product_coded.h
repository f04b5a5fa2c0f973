// Products with weights in codes: up to 6 rows times 4 strips, for a range of groups or for all leaves of a plan.
// Included by the floats_*.cpp, pairs_*.cpp and bytes_*.cpp files after their dots_*.h.
#pragma once

#include <type_traits>

#if !defined(LOCKSTEP_CPU_DOTS)  // so that this header compiles alone
#include "runtime/backends/cpu/kernels/dots_floats.h"
#endif
#include "runtime/backends/cpu/kernels/coded.h"
#include "runtime/backends/cpu/kernels/row_sums.h"
#include "runtime/backends/cpu/kernels/words.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

#if defined(__AVX512F__)
constexpr bool kHoldsSums = true;  // there are enough registers
#else
constexpr bool kHoldsSums = false;
#endif

/// With more than two rows, sums are kept in memory between groups, because those of the group need the registers.
template <int R, int V>
using GroupSums = RowSums<R, V, kHoldsSums && R <= 2 ? V : 0>;

template <GroupOffset kValue>
struct OffsetTag {
  static constexpr GroupOffset kOffset = kValue;
};
template <typename Work>
LOCKSTEP_LANES_INLINE void with_offset(GroupOffset offset, Work work) {
  if (offset == GroupOffset::kNone) return work(OffsetTag<GroupOffset::kNone>{});
  if (offset == GroupOffset::kZeros) return work(OffsetTag<GroupOffset::kZeros>{});
  work(OffsetTag<GroupOffset::kMinima>{});
}

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
LOCKSTEP_LANES_INLINE void load_offsets(const WeightFormat& format, const std::byte* p, Words (&to)[V]) {
  if constexpr (kOffset == GroupOffset::kMinima) {
    Lanes minima[V];
    load_scales<V>(format.scale, p, minima);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) to[v] = as_words(minima[v]);
  } else if constexpr (kOffset == GroupOffset::kZeros) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      to[v] = Dots::zeros_of(format, format.bits == 4 ? widen_bytes(p + v * kLanes) : widen_halves(p + v * kLanes * 2));
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

/// Calls work(code) with the code of `format`, whose kind is known when this is compiled.
template <typename Work>
LOCKSTEP_LANES_INLINE void with_code(const WeightFormat& format, Work work) {
  if (format.kind == CodeKind::kInteger && format.bits == 4) {
    work(typename Dots::template Code<CodeKind::kInteger, 4>(format));
  } else if (format.kind == CodeKind::kE2M1) {
    work(typename Dots::template Code<CodeKind::kE2M1, 4>(format));
  } else if (format.kind == CodeKind::kInteger) {
    work(typename Dots::template Code<CodeKind::kInteger, 8>(format));
  } else if constexpr (Dots::kKind != DotKind::kBytes) {
    work(typename Dots::template Code<CodeKind::kE4M3, 8>(format));
  }
}

/// Adds the lines of one group, in codes, to the sums of R rows and V strips.
template <int R, int V, typename Code>
LOCKSTEP_LANES_INLINE void add_lines(const Code& code, const CodedWeights& w, const std::byte* line, int64_t lines,
                                     const std::byte* x, int64_t x_stride, Dots::Sum (&sums)[R][V]) {
  const int64_t stride = w.panel_strips * int64_t{kLineBytes};
  line += w.first_strip * kLineBytes;
  for (int64_t i = 0; i < lines; ++i, line += stride, x += Code::kSteps * 4) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      Words steps[Code::kSteps];
      code.steps(line + v * kLineBytes, steps);
#pragma GCC unroll 8
      for (int s = 0; s < Code::kSteps; ++s) {
        const auto step = Dots::step_of(steps[s]);
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r) {
          sums[r][v] = Dots::add(sums[r][v], step, Dots::broadcast(x + r * x_stride + s * 4));
        }
      }
    }
  }
}

/// Adds complete sums of a group to those of the rows, with the scales and offsets at `at`, after the lines.
template <int R, int V>
LOCKSTEP_LANES_INLINE void end_coded_group(const Dots::Rule& rule, const WeightFormat& format, const std::byte* at,
                                           const GroupEnd& end, const ArrangedRows& x, int64_t group,
                                           const Dots::Sum (&dots)[R][V], GroupSums<R, V>& sums, float* top) {
  Lanes scales[V];
  load_scales<V>(format.scale, at + end.scales, scales);
  with_offset(
      format.offset, [&](auto tag) __attribute__((always_inline)) {
        constexpr GroupOffset kOffset = decltype(tag)::kOffset;
        Words offsets[V];
        load_offsets<kOffset, V>(format, at + end.offsets, offsets);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          const Lanes scale = Dots::scale_of(rule, scales[v]);
#pragma GCC unroll 2
          for (int r = 0; r < R; ++r) {
            sums.set(r, v, top, Dots::end<kOffset>(x, r, group, dots[r][v], scale, offsets[v], sums.get(r, v, top)));
          }
        }
      });
}

template <int R, int V, typename Code>
LOCKSTEP_LANES_INLINE void add_coded_groups(const Code& code, const CodedWeights& w, const GroupEnd& end,
                                            const ArrangedRows& x, const CodedSegment& leaf, GroupSums<R, V>& sums,
                                            float* top) {
  const Dots::Rule rule(w.format);
  const WeightFormat format = w.format;
  const std::byte* at = w.group_at(leaf.first_line, leaf.first_group);
  const std::byte* steps = x.steps + leaf.first_line * Code::kSteps * 4;
  const int64_t line_bytes = w.panel_strips * int64_t{kLineBytes};
  for (int64_t i = 0; i < leaf.groups; ++i) {
    const int64_t lines = i + 1 < leaf.groups ? w.group_lines : leaf.last_lines, group = leaf.first_group + i;
    Dots::Sum dots[R][V];
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
      const Dots::Sum opening = Dots::open(rule, x, r, group);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) dots[r][v] = opening;
    }
    add_lines<R, V>(code, w, at, lines, steps, x.stride, dots);
    at += lines * line_bytes;
    end_coded_group<R, V>(rule, format, at, end, x, group, dots, sums, top);
    at += end.bytes;
    steps += lines * Code::kSteps * 4;
  }
}

template <int R, int V, typename Code>
static void few_coded_rows(const CodedFewRows& p, const Code& code) {
  GroupSums<R, V> sums;
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
      add_coded_groups<R, V>(code, of_panel, end, p.x, *leaf, sums, top);
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

template <int R>
static void few_coded_rows(const CodedFewRows& p) {
  constexpr int kStrips = kStripsAtOnce<R>;
  with_code(p.weights.format, [&](const auto& code) {
    if (p.weights.strips == kStrips) return few_coded_rows<R, kStrips>(p, code);
    CodedFewRows of_panel = p;
    of_panel.panels = 1;
    for (int64_t panel = 0; panel < p.panels; ++panel, of_panel.weights.data += p.panel_stride) {
      of_panel.result = result_from(p.result, panel * kPanel);
      for (int strip = 0; strip < p.weights.strips; ++strip) few_coded_rows<R, 1>(strips_of(of_panel, strip, 1), code);
    }
  });
}

/// See CodedKernels::few_rows.
static void few_coded_rows(const CodedFewRows& p) {
  if (p.x.rows == 1) return few_coded_rows<1>(p);
  few_coded_rows<2>(p);
}

/// Writes the lines of a group as steps.
template <typename Code>
LOCKSTEP_LANES_INLINE void expand_lines(const Code& code, const CodedWeights& w, const std::byte* at, int64_t lines,
                                        std::byte* to) {
  const int64_t stride = w.strips * int64_t{kLineBytes};
  for (int64_t line = 0; line < lines; ++line, at += w.panel_strips * kLineBytes, to += Code::kSteps * stride) {
    for (int v = 0; v < w.strips; ++v) {
      Words steps[Code::kSteps];
      code.steps(at + (w.first_strip + v) * kLineBytes, steps);
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
    with_offset(w.format.offset, [&](auto tag) {
      constexpr GroupOffset kOffset = decltype(tag)::kOffset;
      if (kOffset == GroupOffset::kNone) return;
      Words offset[1];
      load_offsets<kOffset, 1>(w.format, at + end.offsets + v * offset_size, offset);
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
  with_code(w.format, [&](const auto& code) {
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

/// Adds one group in steps to the sums of the rows.
template <int R, int V>
LOCKSTEP_LANES_INLINE void add_group(const GroupProduct& p, const Dots::Rule& rule, const std::byte* w,
                                     const std::byte* x, int64_t steps, int64_t group, GroupSums<R, V>& sums,
                                     float* top) {
  const int64_t x_stride = p.x.stride, step_stride = p.step_stride;
  Dots::Sum dots[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    const Dots::Sum opening = Dots::open(rule, p.x, r, group);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) dots[r][v] = opening;
  }
  for (int64_t step = 0; step < steps; ++step) {
    decltype(Dots::step_of(Words{})) weights[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) weights[v] = Dots::step_of(load_words(w + v * kLineBytes));
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Dots::X broadcast = Dots::broadcast(x + r * x_stride);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) dots[r][v] = Dots::add(dots[r][v], weights[v], broadcast);
    }
    w += step_stride;
    x += 4;
  }
  with_offset(
      p.format.offset, [&](auto tag) __attribute__((always_inline)) {
        constexpr GroupOffset kOffset = decltype(tag)::kOffset;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          const Lanes scale = Dots::scale_of(rule, as_floats(load_words(w + v * kLineBytes)));
          const Words offset =
              kOffset == GroupOffset::kNone ? splat_word(0) : load_words(w + step_stride + v * kLineBytes);
#pragma GCC unroll 6
          for (int r = 0; r < R; ++r) {
            sums.set(r, v, top, Dots::end<kOffset>(p.x, r, group, dots[r][v], scale, offset, sums.get(r, v, top)));
          }
        }
      });
  // Keeps the compiler from holding stored values in registers that the next group's sums need.
  if constexpr (GroupSums<R, V>::kIsPartlyStored) asm volatile("" ::: "memory");
}

template <int R, int V>
static void group_tile(const GroupProduct& p) {
  GroupSums<R, V> sums;
  if (p.opens) {
    sums.open(p.sums);
  } else {
    sums.resume(p.sums);
  }
  const Dots::Rule rule(p.format);
  const int64_t end_lines = p.format.offset == GroupOffset::kNone ? 1 : 2;
  const std::byte* w = p.weights;
  const std::byte* x = p.x.steps;
  for (int64_t group = 0; group < p.groups; ++group) {
    const int64_t steps = group + 1 < p.groups ? p.group_steps : p.last_steps;
    add_group<R, V>(p, rule, w, x, steps, group, sums, p.sums);
    w += (steps + end_lines) * p.step_stride;
    x += steps * 4;
  }
  sums.close(p.sums);
}

#if defined(__AVX512F__)

template <int R>
static void group_strips(const GroupProduct& p) {
  switch (p.strips) {
    case 1: return group_tile<R, 1>(p);
    case 2: return group_tile<R, 2>(p);
    case 3: return group_tile<R, 3>(p);
    default: return group_tile<R, 4>(p);
  }
}

#else

/// With 16 half-width registers, rows take one strip at a time.
template <int R>
static void group_strips(const GroupProduct& p) {
  GroupProduct part = p;
  for (int strip = 0; strip < p.strips; ++strip, part.weights += kLineBytes, part.sums += kLanes) {
    group_tile<R, 1>(part);
  }
}

#endif

/// See CodedKernels::product.
static void group_product(const GroupProduct& p) {
  switch (p.x.rows) {
    case 3: return group_strips<3>(p);
    case 4: return group_strips<4>(p);
    case 5: return group_strips<5>(p);
    default: return group_strips<6>(p);
  }
}

[[maybe_unused]] constexpr CodedKernels make_coded_kernels(void (*tiled)(const GroupProduct&) = nullptr,
                                                           CodeAttention attention = {}) {
  return {.dots = Dots::kKind,
          .few_rows = few_coded_rows,
          .expand = expand,
          .product = group_product,
          .tiled_product = tiled,
          .quantise = Dots::quantise,
          .sum = Dots::sum,
          .attention = attention};
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
