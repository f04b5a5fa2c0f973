// Fills the table of one instruction set. Included by the isa_*.cpp files last.
#pragma once

#include "runtime/backends/cpu/kernels/product.h"
#include "runtime/backends/cpu/kernels/rowwise.h"
#include "runtime/backends/cpu/kernels/softmax.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

constexpr Kernels make_kernels(Isa isa) {
  return {
    .isa = isa,
#if defined(__AVX512BF16__)
    .bf16_pairs = true, .product_pairs = product<Pairs>,
#else
    .bf16_pairs = false, .product_pairs = nullptr,
#endif
    .product_f32 = product<Scalar<float>>, .product_bf16 = product<Scalar<BFloat16>>,
    .product_f16 = product<Scalar<Float16>>, .add_floats = add_floats, .finish_tile = finish_tile,
    .softmax_tile = softmax_tile, .finish_attention = finish_attention, .convert = convert, .add = add,
    .rms_norm = rms_norm, .gated_silu = gated_silu, .rope_head = rope_head,
  };
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
