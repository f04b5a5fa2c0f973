// Products with weights in codes, of any number of rows.
#include "runtime/backends/cuda/kernels/code_sums.h"

namespace lockstep::cuda {
namespace {

LOCKSTEP_DEVICE void write_as(int32_t type, void* y, int64_t at, float value) {
  if (type == kF32) {
    static_cast<float*>(y)[at] = value;
  } else if (type == kBf16) {
    static_cast<Bf16*>(y)[at] = Bf16Rows::write(value);
  } else {
    static_cast<uint16_t*>(y)[at] = F16Rows::write(value);
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void write_sum(const ProductCodesParameters& p, int root, int row, int output, float value) {
  if (output >= p.outputs) return;
  if (p.bias != nullptr) {
    value = plus(value, Rows::read(static_cast<const typename Rows::Element*>(p.bias)[output]));
  }
  write_as(p.y_type, p.y, root * p.y_plane + row * p.y_stride + output, value);
}

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void product_codes(const ProductCodesParameters& p) {
  follow_previous();
  TileSums<kGroups>& shared = shared_memory<TileSums<kGroups>>();
  const int warp = thread_index() / 32;
  const int rows = used(p.rows);
  for (int first_row = 0; first_row < rows; first_row += kGroups * kTileRows) {
    const auto row_at = [&](int row) { return first_row + row < rows ? first_row + row : -1; };
    int height = 0;
    for (int first = 0; first < p.part_count; first += kProductWarps) {
      if (first + warp < p.part_count) {
        sum_codes<Rows, kGroups>(p.operand, block_index(), p.parts[first + warp], row_at, shared.parts[warp]);
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
            write_sum<Rows>(p, p.parts[part].root, row, block_index() * kTileOutputs + element / kTileRows, sum);
          }
        }
        height = p.parts[part].root < 0 ? height + 1 - p.parts[part].merges : 0;
      }
      sync_block();
    }
  }
}

}  // namespace

LOCKSTEP_KERNEL(product_codes_few_f32, ProductCodesParameters, kProductThreads) { product_codes<F32Rows, 1>(p); }
LOCKSTEP_KERNEL(product_codes_few_bf16, ProductCodesParameters, kProductThreads) { product_codes<Bf16Rows, 1>(p); }
LOCKSTEP_KERNEL(product_codes_few_f16, ProductCodesParameters, kProductThreads) { product_codes<F16Rows, 1>(p); }
LOCKSTEP_KERNEL_HELD(product_codes_f32, ProductCodesParameters, kProductThreads, 1) {
  product_codes<F32Rows, kCodeGroups>(p);
}
LOCKSTEP_KERNEL_HELD(product_codes_bf16, ProductCodesParameters, kProductThreads, 1) {
  product_codes<Bf16Rows, kCodeGroups>(p);
}
LOCKSTEP_KERNEL_HELD(product_codes_f16, ProductCodesParameters, kProductThreads, 1) {
  product_codes<F16Rows, kCodeGroups>(p);
}

}  // namespace lockstep::cuda
