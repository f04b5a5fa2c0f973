// Rotary positions, the KV cache and attention over it.
#include <algorithm>
#include <cmath>

#include "runtime/backends/aten/operations.h"
#include "runtime/backends/reference/kernels.h"

namespace lockstep::reference {
namespace {

/// A KV cache [S, G, C, h], held in the model's type.
struct Cache {
  explicit Cache(const Tensor& t)
      : dtype(t.type.dtype),
        memory(t.memory),
        slots(t.type.shape[0]),
        heads(t.type.shape[1]),
        capacity(t.type.shape[2]),
        head_dim(t.type.shape[3]) {}

  /// Where position `position` of one head of one slot begins.
  std::byte* at(int64_t slot, int64_t head, int64_t position) const {
    LOCKSTEP_CHECK(0 <= slot && slot < slots && 0 <= head && head < heads, slot, slots, head, heads);
    LOCKSTEP_CHECK(0 <= position && position < capacity, position, capacity);
    return memory + static_cast<size_t>(((slot * heads + head) * capacity + position) * head_dim) * size_of(dtype);
  }

  /// The first `positions` rows of one head of one slot in f32, [positions, head_dim].
  std::vector<float> read(int64_t slot, int64_t head, int64_t positions) const {
    std::vector<float> rows(static_cast<size_t>(positions * head_dim));
    convert_elements(at(slot, head, 0), dtype, reinterpret_cast<std::byte*>(rows.data()), DType::kFloat32, rows.size());
    return rows;
  }

  DType dtype;
  std::byte* memory;
  int64_t slots, heads, capacity, head_dim;
};

}  // namespace

Result<void> rope(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const int32_t* position = call.operands[1].ints();
  const float* frequencies = call.operands[2].floats();
  const int64_t half = call.operands[2].elements();
  const int64_t heads = call.node.integer("heads");
  const int64_t head_dim = x.columns() / heads;
  const auto scale = static_cast<float>(call.node.number("scale"));
  std::copy_n(x.floats(), x.elements(), call.result->floats());  // what is beyond the rotated part stays
  for (int64_t row = 0; row < x.rows() * heads; ++row) {
    const float* src = x.floats() + row * head_dim;
    float* dst = call.result->floats() + row * head_dim;
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position[row / heads]) * frequencies[i];
      const float cosine = std::cos(angle) * scale;
      const float sine = std::sin(angle) * scale;
      dst[i] = src[i] * cosine - src[i + half] * sine;
      dst[i + half] = src[i + half] * cosine + src[i] * sine;
    }
  }
  return ok();
}

Result<void> kv_append(const Call& call, const Environment&) {
  const Tensor& rows = call.operands[0];
  const Cache cache(call.operands[1]);
  const int32_t* slot = call.operands[2].ints();
  const int32_t* position = call.operands[3].ints();
  const auto head_dim = static_cast<size_t>(cache.head_dim);
  for (int64_t t = 0; t < rows.rows(); ++t) {
    if (slot[t] < 0) continue;
    for (int64_t g = 0; g < cache.heads; ++g) {
      const float* src = rows.floats() + t * rows.columns() + g * cache.head_dim;
      convert_elements(reinterpret_cast<const std::byte*>(src), DType::kFloat32, cache.at(slot[t], g, position[t]),
                       cache.dtype, head_dim);
    }
  }
  return ok();
}

Result<void> attention(const Call& call, const Environment&) {
  const Tensor& q = call.operands[0];
  const Cache keys(call.operands[1]);
  const Cache values(call.operands[2]);
  const int32_t* slot = call.operands[3].ints();
  const int32_t* position = call.operands[4].ints();
  const std::vector<int64_t>& head_map = call.node.integers("head_map");
  const auto scale = static_cast<float>(call.node.number("scale"));
  const int64_t h = keys.head_dim;
  std::fill_n(call.result->floats(), call.result->elements(), 0.0f);  // what padding rows give
  for (int64_t t = 0; t < q.rows(); ++t) {
    if (slot[t] < 0) continue;
    const int64_t length = position[t] + 1;
    std::vector<float> scores(static_cast<size_t>(length));
    std::vector<float> shares(static_cast<size_t>(length));
    for (size_t head = 0; head < head_map.size(); ++head) {
      const std::vector<float> k = keys.read(slot[t], head_map[head], length);
      const std::vector<float> v = values.read(slot[t], head_map[head], length);
      const int64_t offset = t * q.columns() + static_cast<int64_t>(head) * h;
      const aten::ConstMatrix query = aten::dense(q.floats() + offset, 1, h);
      LOCKSTEP_TRY_VOID(
          aten::multiply_transposed(query, aten::dense(k.data(), length, h), aten::dense(scores.data(), 1, length)));
      for (float& score : scores) score *= scale;
      LOCKSTEP_TRY_VOID(
          aten::softmax_rows(aten::dense(scores.data(), 1, length), aten::dense(shares.data(), 1, length)));
      LOCKSTEP_TRY_VOID(aten::multiply(aten::dense(shares.data(), 1, length), aten::dense(v.data(), length, h),
                                       aten::dense(call.result->floats() + offset, 1, h)));
    }
  }
  return ok();
}

}  // namespace lockstep::reference
