// Recurrent layers: causal convolution and the gated delta rule (runtime/graph/OPERATIONS.md).
//
// Work is divided by channels, or by key heads with their value heads and by slots; each part does all rows of a slot
// in order. Within a block the delta rule is products of rows with small matrices:
//
//   rows (k, q) ──·keys──► dots        of all value heads of the key head
//               ──·border► reads       then per value head: changes u row by row, outputs
//
// A sum is one accumulator over its steps in order, whether a step has one row or a whole block.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/backends/cpu/store.h"
#include "runtime/backends/cpu/tensor.h"
#include "runtime/device/row_limits.h"

namespace lockstep::cpu {

/// A causal_conv node, ready to run.
struct ConvolutionTask {
  const Kernels* kernels = nullptr;
  PackedWeight weight;
  Tensor x, result;
  std::byte* kept = nullptr;  // [slots, kept_rows, channels]: row p of a slot at p mod kept_rows
  int64_t kept_rows = 0;
  const int32_t* slot = nullptr;
  const int32_t* position = nullptr;
  bool activates = false;
  Activation activation;

  void run(Part part) const;

 private:
  void run_panel(int64_t panel, const device::RowRun& run) const;
};

/// A gated_delta_rule node, ready to run.
struct DeltaRuleTask {
  const Kernels* kernels = nullptr;
  std::vector<int64_t> first_value_head;  // [key heads + 1]: value heads first[g] … first[g + 1] − 1 read key head g
  int64_t key_dim = 0, value_dim = 0, block = 0;
  float epsilon = 0.0f;
  Tensor x, gates, a_log, dt_bias, result;
  float* keys = nullptr;     // [slots, 2 · key heads, key_dim, block]
  float* changes = nullptr;  // [slots, 2 · value heads, block, value_dim]
  float* decays = nullptr;   // [slots, 2 · value heads, block]
  float* borders = nullptr;  // [slots, 2 · value heads, key_dim, value_dim]
  const int32_t* slot = nullptr;
  const int32_t* position = nullptr;

  int64_t key_heads() const { return static_cast<int64_t>(first_value_head.size()) - 1; }
  int64_t value_heads() const { return first_value_head.back(); }
  /// Bytes of each worker's scratch.
  int64_t private_bytes() const;
  void run(std::byte* scratch, Part part) const;

 private:
  struct Rows;     // of one slot in one block
  struct Scratch;  // of a worker

  void run_block(const Scratch& scratch, const Rows& rows, int64_t key_head) const;
  void normalise_keys(const Scratch& scratch, const Rows& rows, int64_t key_head, float* keys_now) const;
  void sum_decays(const Rows& rows, int64_t head, float* decays_now) const;
  void cross_border(const Scratch& scratch, const Rows& rows, int64_t head, const float* keys_before) const;
  void run_head(const Scratch& scratch, const Rows& rows, int64_t head) const;
};

}  // namespace lockstep::cpu
