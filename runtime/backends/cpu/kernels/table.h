// Fills the table of one instruction set. Included by the isa_*.cpp files last.
#pragma once

#include "runtime/backends/cpu/kernels/activation.h"
#include "runtime/backends/cpu/kernels/attend.h"
#include "runtime/backends/cpu/kernels/cache_codes.h"
#include "runtime/backends/cpu/kernels/few_rows.h"
#include "runtime/backends/cpu/kernels/product.h"
#include "runtime/backends/cpu/kernels/recurrence.h"
#include "runtime/backends/cpu/kernels/rope.h"
#include "runtime/backends/cpu/kernels/routes.h"
#include "runtime/backends/cpu/kernels/rowwise.h"
#include "runtime/backends/cpu/kernels/softmax.h"
#include "runtime/backends/cpu/kernels/transpose.h"
#if defined(__AMX_BF16__)
#include "runtime/backends/cpu/kernels/attend_tiles.h"
#endif

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

constexpr Kernels make_kernels(Isa isa) {
  return {
    .isa = isa,
#if defined(__AMX_BF16__)
    .bf16_pairs = true, .joins_leaves = kJoinsLeaves, .product_pairs = product<TiledPairs>, .few_rows_pairs = nullptr,
    .tiled_pairs = tiled_rows, .attend_pairs = attend_on_tiles, .attended_rows = kMostAttendedRows,
#elif defined(__AVX512BF16__)
    .bf16_pairs = true, .joins_leaves = kJoinsLeaves, .product_pairs = product<Pairs>,
    .few_rows_pairs = few_rows<Pairs>, .tiled_pairs = nullptr, .attend_pairs = attend_pairs, .attended_rows = kTileRows,
#else
    .bf16_pairs = false, .joins_leaves = kJoinsLeaves, .product_pairs = nullptr, .few_rows_pairs = nullptr,
    .tiled_pairs = nullptr, .attend_pairs = nullptr, .attended_rows = 0,
#endif
    .product_f32 = product<Scalar<float>>, .product_bf16 = product<Scalar<BFloat16>>,
    .product_f16 = product<Scalar<Float16>>, .streamed_rows = kStreamedRows, .few_rows_f32 = few_rows<Scalar<float>>,
    .few_rows_bf16 = few_rows<Scalar<BFloat16>>, .few_rows_f16 = few_rows<Scalar<Float16>>, .add_floats = add_floats,
    .finish_tile = finish_tile, .softmax_tile = softmax_tile, .finish_attention = finish_attention,
    .decode_keys = decode_keys, .decode_values = decode_values, .transpose_16 = transpose_16,
    .transpose_32 = transpose_32, .transpose_pairs = transpose_pairs, .convert = convert, .add = add,
    .multiply = multiply, .scale = scale, .soft_cap = soft_cap, .cut_off = cut_off, .fake_quantise = fake_quantise,
    .match_magnitude = match_magnitude, .weighted_sum = weighted_sum, .rms_norm = rms_norm, .layer_norm = layer_norm,
    .activate = activate, .gate = gate, .convolve = convolve, .normalise = normalise, .decay = decay,
    .gate_tile = gate_tile, .add_routed = add_routed, .route = route, .rope_halves = rope_halves,
    .rope_neighbours = rope_neighbours,
  };
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
