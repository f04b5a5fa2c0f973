// Products in 8-bit integers: exact sums of groups, scaled and added in order (runtime/core/int8_groups.h).
#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/sum_tile.h"
#include "runtime/backends/cuda/kernels/sums.h"
#include "runtime/backends/cuda/kernels/write_product.h"

namespace lockstep::cuda {
namespace {

struct Columns {
  int begin;
  int end;
};

/// The columns of a group.
LOCKSTEP_DEVICE Columns columns_of(const GroupCut& cut, int group) {
  const int per_leaf = (cut.leaf + cut.width - 1) / cut.width;
  const int first = group / per_leaf * cut.leaf;
  const int begin = first + group % per_leaf * cut.width;
  const int leaf_end = cut.leaf < cut.columns - first ? first + cut.leaf : cut.columns;
  return {begin, cut.width < leaf_end - begin ? begin + cut.width : leaf_end};
}

template <typename Rows>
LOCKSTEP_DEVICE void quantise(const QuantiseParameters& p) {
  using Element = typename Rows::Element;
  const int64_t unit =
      static_cast<int64_t>(block_index()) * (kQuantiseThreads / kWarpLanes) + thread_index() / kWarpLanes;
  const int64_t row = unit / p.cut.count;
  const int group = static_cast<int>(unit % p.cut.count);
  if (row >= used(p.rows)) return;  // the same on all lanes
  const int lane = thread_index() % kWarpLanes;
  const Columns columns = columns_of(p.cut, group);
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  float most = 0.0f;
  float is_finite = 1.0f;
  for (int i = columns.begin + lane; i < columns.end; i += kWarpLanes) {
    const float value = Rows::read(x[i]);
    const float size = larger(-value, value);
    if (!(size < infinity())) is_finite = 0.0f;
    most = larger(size, most);
  }
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) {
    most = larger(shuffle_xor(most, mask), most);
    is_finite = smaller(shuffle_xor(is_finite, mask), is_finite);
  }
  const bool is_zero = is_finite == 0.0f || most < 7.88860905e-31f;  // 2⁻¹⁰⁰
  const float inverse = is_zero ? 0.0f : divide(127.0f, most);
  uint32_t* integers = p.integers + unit * p.cut.words;
  for (int word = lane; word < p.cut.words; word += kWarpLanes) {
    uint32_t packed = 0;
    for (int byte = 0; byte < 4; ++byte) {
      const int i = columns.begin + word * 4 + byte;
      if (i >= columns.end || is_zero) continue;
      const int32_t whole = whole_of(times(Rows::read(x[i]), inverse));
      packed |= (static_cast<uint32_t>(whole) & 0xffu) << (8 * byte);
    }
    integers[word] = packed;
  }
  if (lane == 0) {
    p.scales[unit] = is_finite == 0.0f ? float_of_bits(0x7fc00000u) : is_zero ? 0.0f : divide(most, 127.0f);
  }
}

/// One part of the sums of some rows: a lane has one output and four rows of each 8.
template <int kGroups>
LOCKSTEP_DEVICE void sum_groups(const ProductInt8Parameters& p, const SumPart& part, int first_row, int rows,
                                float (&to)[kGroups][kTileElements]) {
  constexpr int kOwn = 4 * kGroups;
  const int output = thread_index() % kTileOutputs;
  const int first = thread_index() % 32 / kTileOutputs * 4;
  const auto row_of = [&](int own) { return first_row + own / 4 * kTileRows + first + own % 4; };
  float sums[kOwn] = {};
  for (int group = part.first_step; group < part.first_step + part.steps; ++group) {
    const int64_t tile = static_cast<int64_t>(block_index()) * p.cut.count + group;
    const uint32_t* weights = p.weights + tile * p.cut.words * kTileOutputs + output;
    int32_t whole[kOwn] = {};
    for (int word = 0; word < p.cut.words; ++word) {
      const uint32_t weight = weights[word * kTileOutputs];
      LOCKSTEP_UNROLL
      for (int own = 0; own < kOwn; ++own) {
        if (row_of(own) >= rows) continue;
        const int64_t at = static_cast<int64_t>(row_of(own)) * p.cut.count + group;
        whole[own] = dot_bytes(weight, p.x[at * p.cut.words + word], whole[own]);
      }
    }
    const float weight_scale = p.weight_scales[tile * kTileOutputs + output];
    LOCKSTEP_UNROLL
    for (int own = 0; own < kOwn; ++own) {
      if (row_of(own) >= rows) continue;
      const float x_scale = p.x_scales[static_cast<int64_t>(row_of(own)) * p.cut.count + group];
      sums[own] = madd(times(float_of_whole(whole[own]), weight_scale), x_scale, sums[own]);
    }
  }
  LOCKSTEP_UNROLL
  for (int own = 0; own < kOwn; ++own) to[own / 4][output * kTileRows + first + own % 4] = sums[own];
}

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void product_int8(const ProductInt8Parameters& p) {
  TileSums<kGroups>& shared = shared_memory<TileSums<kGroups>>();
  const int warp = thread_index() / 32;
  const int rows = used(p.rows);
  for (int first_row = 0; first_row < rows; first_row += kGroups * kTileRows) {
    int height = 0;
    for (int first = 0; first < p.part_count; first += kProductWarps) {
      if (first + warp < p.part_count) {
        sum_groups<kGroups>(p, p.parts[first + warp], first_row, rows, shared.parts[warp]);
      }
      sync_block();
      for (int part = first; part < first + kProductWarps && part < p.part_count; ++part) {
        for (int i = thread_index(); i < kGroups * kTileElements; i += kProductThreads) {
          const int group = i / kTileElements;
          const int element = i % kTileElements;
          const int row = first_row + group * kTileRows + element % kTileRows;
          float sum = shared.parts[part - first][group][element];
          push<kGroups>(shared.stack, group, element, height, p.parts[part].merges, sum);
          if (p.parts[part].root >= 0 && row < rows) {
            write_product<Rows>(p, p.parts[part].root, row, block_index() * kTileOutputs + element / kTileRows, sum);
          }
        }
        height = p.parts[part].root < 0 ? height + 1 - p.parts[part].merges : 0;
      }
      sync_block();
    }
  }
}

}  // namespace

LOCKSTEP_KERNEL(quantise_f32, QuantiseParameters, kQuantiseThreads) { quantise<F32Rows>(p); }
LOCKSTEP_KERNEL(quantise_bf16, QuantiseParameters, kQuantiseThreads) { quantise<Bf16Rows>(p); }
LOCKSTEP_KERNEL(quantise_f16, QuantiseParameters, kQuantiseThreads) { quantise<F16Rows>(p); }
LOCKSTEP_KERNEL(product_int8_few_f32, ProductInt8Parameters, kProductThreads) { product_int8<F32Rows, 1>(p); }
LOCKSTEP_KERNEL(product_int8_few_bf16, ProductInt8Parameters, kProductThreads) { product_int8<Bf16Rows, 1>(p); }
LOCKSTEP_KERNEL(product_int8_few_f16, ProductInt8Parameters, kProductThreads) { product_int8<F16Rows, 1>(p); }
LOCKSTEP_KERNEL(product_int8_f32, ProductInt8Parameters, kProductThreads) { product_int8<F32Rows, 4>(p); }
LOCKSTEP_KERNEL(product_int8_bf16, ProductInt8Parameters, kProductThreads) { product_int8<Bf16Rows, 4>(p); }
LOCKSTEP_KERNEL(product_int8_f16, ProductInt8Parameters, kProductThreads) { product_int8<F16Rows, 4>(p); }

}  // namespace lockstep::cuda
