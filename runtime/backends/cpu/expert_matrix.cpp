#include "runtime/backends/cpu/expert_matrix.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

constexpr int64_t kSlabOfSteps = 64;  // fits the first-level cache

CodedSegment segment_of(const CodedPacking& packing, Range groups) {
  CodedSegment segment;
  segment.first_line = packing.lines_before(groups.begin);
  segment.first_group = groups.begin;
  segment.groups = groups.size();
  segment.last_lines = packing.lines_of(groups.end - 1);
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
  return a.groups == b.groups && a.dots == b.dots && a.lines() * a.steps_of_line() == b.lines() * b.steps_of_line() &&
         a.needs_sums() == b.needs_sums();
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
    return sum_coded(*coded(), coded_kernels_for(kernels.isa, coded()->packing.dots), tile, range, x, sums, scratch);
  }
  const Packing& packing = packed()->packing;
  Product task = product_of(packing, packed()->data + tile.expert * packing.bytes_of_part(), tile.panel, tile.strips);
  task.x = x.first;
  task.x_stride = x.stride;
  sum_rows(product_for(kernels, packing), task, range, x.count, sums);
}

void ExpertMatrix::sum_coded(const CodedWeight& weight, const CodedKernels& coded, const ExpertTile& tile, Range groups,
                             const ExpertRows& x, float* sums, std::byte* scratch) const {
  const CodedPacking& packing = weight.packing;
  const CodedWeights weights =
      packing.weights_of(weight.data + tile.expert * packing.bytes_of_part(), tile.panel, tile.strips);
  if (x.count <= kStreamedCodedRows) {
    const CodedSegment all = segment_of(packing, groups);
    CodedFewRows call;
    call.weights = weights;
    call.x = packing.arranged_rows(x.first, x.stride, x.count);
    call.begin = &all;
    call.end = &all + 1;
    call.stack = sums;
    call.result.dst = reinterpret_cast<std::byte*>(sums);  // without a root there is no result
    return coded.few_rows(call);
  }
  GroupProduct product;
  product.format = packing.format;
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
    for (int64_t t = 0; t < tiles_of(x.count); ++t) {
      const Range of = rows_of_tile(x.count, t);
      product.x = packing.arranged_rows(x.first + of.begin * x.stride, x.stride, of.size());
      product.x.steps += segment.first_line * packing.steps_of_line() * 4;
      product.x.scales += segment.first_group;
      product.x.sums += segment.first_group * 4;
      product.sums = sums + t * kTileFloats;
      coded.product(product);
    }
  }
}

}  // namespace lockstep::cpu
