// Attention over caches in 8 bits: which tiles are multiplied as they are, and the decoding of the others.
#include <cstring>

#include "runtime/backends/cpu/attention_run.h"

namespace lockstep::cpu {

bool AttentionTask::multiplies_codes() const {
  const bool are_integers = keys.dtype == DType::kInt8 && values.dtype == DType::kInt8 && !values_in_keys;
  return are_integers && integers->attention.attend != nullptr && q.dtype != DType::kFloat32;
}

int64_t AttentionTask::q_row_bytes() const {
  if (!multiplies_codes()) return keys.padded_dim() * (keys.pairs ? 2 : 4);
  return 2 * keys.padded_dim() + static_cast<int64_t>(sizeof(QueryScale));
}

void AttentionTask::split_query(ConstRow query, std::byte* dst) const {
  alignas(64) float floats[kMostCodedRow];
  kernels->convert(query, {reinterpret_cast<std::byte*>(floats), DType::kFloat32}, keys.head_dim);
  integers->attention.split_query(floats, keys.head_dim, keys.padded_dim() / 4, dst);
}

void AttentionTask::decode_tile(const Run& run, int64_t tile) const {
  auto* const decoded_keys = reinterpret_cast<float*>(run.keys);
  kernels->decode_keys(keys.dtype, keys.tile(run.slot, tile, run.head), keys.padded_dim(), decoded_keys);
  const int64_t columns = values.padded_dim();
  if (!values_in_keys) {
    const std::byte* const from = values.tile(run.slot, tile, run.head);
    return kernels->decode_values(values.dtype, from, columns, reinterpret_cast<float*>(run.values));
  }
  std::memset(run.values, 0, static_cast<size_t>(kTileTokens * columns) * sizeof(float));
  kernels->transpose_32(run.keys, values.head_dim, columns, run.values);
}

}  // namespace lockstep::cpu
