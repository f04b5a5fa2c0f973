// The two products of an expert, with weights in codes.
#include "runtime/backends/cuda/kernels/code_sums.h"
#include "runtime/backends/cuda/kernels/expert_rows.h"

namespace lockstep::cuda {
namespace {

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void inner_of_codes(const ExpertsInnerCodesParameters& p) {
  experts_inner<Rows, kGroups>(p.experts, [&](bool is_up, int64_t tile, const SumPart& part, auto row_at, auto& to) {
    sum_codes<Rows, kGroups>(is_up ? p.up : p.gate, tile, part, row_at, to);
  });
}

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void down_of_codes(const ExpertsDownCodesParameters& p) {
  experts_down<Rows, kGroups>(p.experts, [&](int64_t tile, const SumPart& part, auto row_at, auto& to) {
    sum_codes<Rows, kGroups>(p.down, tile, part, row_at, to);
  });
}

}  // namespace

LOCKSTEP_KERNEL(experts_inner_codes_few_f32, ExpertsInnerCodesParameters, kProductThreads) {
  inner_of_codes<F32Rows, 1>(p);
}
LOCKSTEP_KERNEL(experts_inner_codes_few_bf16, ExpertsInnerCodesParameters, kProductThreads) {
  inner_of_codes<Bf16Rows, 1>(p);
}
LOCKSTEP_KERNEL(experts_inner_codes_few_f16, ExpertsInnerCodesParameters, kProductThreads) {
  inner_of_codes<F16Rows, 1>(p);
}
LOCKSTEP_KERNEL(experts_inner_codes_f32, ExpertsInnerCodesParameters, kProductThreads) {
  inner_of_codes<F32Rows, kCodeGroups>(p);
}
LOCKSTEP_KERNEL(experts_inner_codes_bf16, ExpertsInnerCodesParameters, kProductThreads) {
  inner_of_codes<Bf16Rows, kCodeGroups>(p);
}
LOCKSTEP_KERNEL(experts_inner_codes_f16, ExpertsInnerCodesParameters, kProductThreads) {
  inner_of_codes<F16Rows, kCodeGroups>(p);
}
LOCKSTEP_KERNEL(experts_down_codes_few_f32, ExpertsDownCodesParameters, kProductThreads) {
  down_of_codes<F32Rows, 1>(p);
}
LOCKSTEP_KERNEL(experts_down_codes_few_bf16, ExpertsDownCodesParameters, kProductThreads) {
  down_of_codes<Bf16Rows, 1>(p);
}
LOCKSTEP_KERNEL(experts_down_codes_few_f16, ExpertsDownCodesParameters, kProductThreads) {
  down_of_codes<F16Rows, 1>(p);
}
LOCKSTEP_KERNEL_HELD(experts_down_codes_f32, ExpertsDownCodesParameters, kProductThreads, 1) {
  down_of_codes<F32Rows, kCodeGroups>(p);
}
LOCKSTEP_KERNEL_HELD(experts_down_codes_bf16, ExpertsDownCodesParameters, kProductThreads, 1) {
  down_of_codes<Bf16Rows, kCodeGroups>(p);
}
LOCKSTEP_KERNEL_HELD(experts_down_codes_f16, ExpertsDownCodesParameters, kProductThreads, 1) {
  down_of_codes<F16Rows, kCodeGroups>(p);
}

}  // namespace lockstep::cuda
