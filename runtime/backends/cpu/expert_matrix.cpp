#include "runtime/backends/cpu/expert_matrix.h"

#include <algorithm>
#include <array>

namespace lockstep::cpu {
namespace {

constexpr int64_t kSlabOfSteps = 64;  // fits the first-level cache

CodedSegment segment_of(const CodedPacking& packing, Range groups) {
  CodedSegment segment;
  segment.first_line = packing.lines_before(groups.begin);
  segment.first_group = groups.begin;
  segment.groups = groups.size();
  segment.last_lines = groups.size() > 0 ? packing.lines_of(groups.end - 1) : 0;
  return segment;
}

int64_t group_steps(const CodedPacking& packing) { return packing.group_lines() * packing.steps_of_line(); }

int64_t groups_at_once(const CodedPacking& packing) {
  return std::max<int64_t>(1, kSlabOfSteps / group_steps(packing));
}

}  // namespace

int64_t ExpertMatrix::n() const {
  return std::visit([](const auto& of) { return of.packing.n; }, weight_);
}
int64_t ExpertMatrix::k() const { return coded() != nullptr ? coded()->packing.groups.columns : packed()->packing.k; }
int64_t ExpertMatrix::experts() const {
  return std::visit([](const auto& of) { return of.packing.parts; }, weight_);
}

int64_t ExpertMatrix::arranged_bytes() const {
  return coded() != nullptr ? coded()->packing.arranged_bytes() : cpu::arranged_bytes(packed()->packing);
}

bool ExpertMatrix::needs_arranging(DType dtype) const {
  return coded() != nullptr ? coded()->packing.needs_arranging(dtype) : cpu::needs_arranging(packed()->packing, dtype);
}

void ExpertMatrix::arrange(const Kernels& kernels, ConstRow x, std::byte* dst) const {
  if (coded() == nullptr) return arrange_row(kernels, packed()->packing, x, dst);
  arrange_coded(kernels, coded()->packing, x, {0, coded()->packing.groups.count()}, dst);
}

bool ExpertMatrix::reads_same_rows(const ExpertMatrix& other) const {
  if (coded() == nullptr || other.coded() == nullptr) return coded() == other.coded();
  const CodedPacking &a = coded()->packing, &b = other.coded()->packing;
  return a.groups == b.groups && a.dots == b.dots && a.steps() == b.steps();
}

Range ExpertMatrix::range_of_leaf(int64_t own, int64_t block) const {
  if (coded() == nullptr) return steps_of_leaf(packed()->packing, own, block);
  const ColumnGroups& cut = coded()->packing.groups;
  return {own * cut.per_leaf(), std::min((own + 1) * cut.per_leaf(), cut.count())};
}

Range ExpertMatrix::range() const {
  return {0, coded() != nullptr ? coded()->packing.groups.count() : packed()->packing.steps()};
}

int64_t ExpertMatrix::scratch_bytes() const {
  if (coded() == nullptr) return 0;
  const CodedPacking& packing = coded()->packing;
  return groups_at_once(packing) * (group_steps(packing) + 2) * kPanelStrips * kLineBytes;
}

void ExpertMatrix::sum(const Kernels& kernels, const ExpertTile& tile, Range range, const ExpertRows& x, float* sums,
                       std::byte* scratch) const {
  if (coded() != nullptr) {
    if (x.count <= kStreamedCodedRows) return sum_few(kernels, tile, {&range, 1}, x, sums);
    return sum_coded(*coded(), coded_kernels_for(kernels.isa, coded()->packing.dots), tile, range, x, sums, scratch);
  }
  const Packing& packing = packed()->packing;
  Product task = product_of(packing, packed()->data + tile.expert * packing.bytes_of_part(), tile.panel, tile.strips);
  task.x = x.first;
  task.x_stride = x.stride;
  sum_rows(product_for(kernels, packing), task, range, x.count, sums);
}

CodedWeights ExpertMatrix::codes_of(const ExpertTile& tile) const {
  const CodedPacking& packing = coded()->packing;
  return packing.weights_of(coded()->data + tile.expert * packing.bytes_of_part(), tile.panel, tile.strips);
}

void ExpertMatrix::ask_for(const ExpertTile& tile) const {
  constexpr int64_t kBytes = 3072;
  if (coded() == nullptr) return;
  const std::byte* const first = codes_of(tile).data;
  for (int64_t at = 0; at < kBytes; at += kLineBytes) __builtin_prefetch(first + at, 0, 2);
}

void ExpertMatrix::sum_few(const Kernels& kernels, const ExpertTile& tile, std::span<const Range> groups,
                           const ExpertRows& x, float* sums) const {
  const CodedPacking& packing = coded()->packing;
  std::array<CodedSegment, kMostRanges> segments;
  for (size_t i = 0; i < groups.size(); ++i) {
    segments[i] = segment_of(packing, groups[i]);
    segments[i].level = static_cast<int>(i);
  }
  CodedFewRows call;
  call.weights = codes_of(tile);
  call.x = packing.arranged_rows(x.first, x.stride, x.count);
  call.begin = segments.data();
  call.end = segments.data() + groups.size();
  call.stack = sums;
  call.result.dst = reinterpret_cast<std::byte*>(sums);  // without a root there is no result
  call.stream_prefetch = stream_prefetch();
  coded_kernels_for(kernels.isa, packing.dots).few_rows(call);
}

void ExpertMatrix::sum_coded(const CodedWeight& weight, const CodedKernels& coded, const ExpertTile& tile, Range groups,
                             const ExpertRows& x, float* sums, std::byte* scratch) const {
  const CodedPacking& packing = weight.packing;
  const CodedWeights weights = codes_of(tile);
  GroupProduct product;
  product.format = packing.format;
  product.dots = packing.dots;
  product.weights = scratch;
  product.step_stride = weights.strips * kLineBytes;
  product.group_steps = group_steps(packing);
  product.strips = weights.strips;
  for (Range slab = groups; slab.begin < groups.end; slab.begin = slab.end) {
    slab.end = std::min(slab.begin + groups_at_once(packing), groups.end);
    const CodedSegment segment = segment_of(packing, slab);
    coded.expand({weights, segment, scratch});
    product.groups = segment.groups;
    product.last_steps = segment.last_lines * packing.steps_of_line();
    product.opens = slab.begin == groups.begin;
    // Tiles of few rows in digits are parts of those of the result.
    const int64_t most = kCodedTileRows / digits_of(packing.dots);
    for (int64_t t = 0; t < tiles_of(x.count); ++t) {
      const Range tile_rows = rows_of_tile(x.count, t);
      for (Range of = tile_rows; of.begin < tile_rows.end; of.begin = of.end) {
        of.end = std::min(of.begin + most, tile_rows.end);
        product.x = packing.arranged_rows(x.first + of.begin * x.stride, x.stride, of.size());
        product.x.steps += segment.first_line * packing.steps_of_line() * 4;
        product.x.scales += segment.first_group;
        product.x.sums += segment.first_group;
        product.sums = sums + t * kTileFloats + (of.begin - tile_rows.begin) * kPanel;
        coded.product(product);
      }
    }
  }
}

}  // namespace lockstep::cpu
