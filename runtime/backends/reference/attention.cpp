// The KV cache and attention over it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/backends/aten/operations.h"
#include "runtime/backends/reference/kernels.h"
#include "runtime/core/cache_rows.h"

namespace lockstep::reference {
namespace {

/// A KV cache [S, G, C, h] in the model's type, or in codes with a scale for each row, and its layout.
struct Cache {
  Cache(const Tensor& t, const graph::Node& node)
      : dtype(t.type.dtype),
        memory(t.memory),
        slots(t.type.shape[0]),
        heads(t.type.shape[1]),
        capacity(t.type.shape[2]),
        row_bytes(t.type.shape[3] * static_cast<int64_t>(size_of(dtype))),
        head_dim(row_values(dtype, t.type.shape[3])),
        is_ring(node.has("window")),
        pinned(node.integer_or("pinned", 0)) {}

  /// The row of a position; a ring wraps behind its pinned rows.
  int64_t row_of(int64_t position) const {
    LOCKSTEP_CHECK(0 <= position && (is_ring || position < capacity), position, capacity);
    if (!is_ring || position < pinned) return position;
    return pinned + (position - pinned) % (capacity - pinned);
  }

  /// The address of position `position` of one head of one slot.
  std::byte* at(int64_t slot, int64_t head, int64_t position) const {
    LOCKSTEP_CHECK(0 <= slot && slot < slots && 0 <= head && head < heads, slot, slots, head, heads);
    const int64_t row = (slot * heads + head) * capacity + row_of(position);
    return memory + row * row_bytes;
  }

  /// The rows of `positions` of one head of one slot in f32, [positions, head_dim].
  std::vector<float> read(int64_t slot, int64_t head, const std::vector<int64_t>& positions) const {
    std::vector<float> rows(positions.size() * static_cast<size_t>(head_dim));
    float* dst = rows.data();
    for (const int64_t position : positions) {
      if (has_row_scales(dtype)) {
        decode_cache_row(dtype, at(slot, head, position), head_dim, dst);
      } else {
        convert_elements(at(slot, head, position), dtype, reinterpret_cast<std::byte*>(dst), DType::kFloat32,
                         static_cast<size_t>(head_dim));
      }
      dst += head_dim;
    }
    return rows;
  }

  /// Writes `row` to position `position` of one head of one slot.
  void write(int64_t slot, int64_t head, int64_t position, const float* row) const {
    std::byte* const dst = at(slot, head, position);
    if (has_row_scales(dtype)) return encode_cache_row(dtype, row, head_dim, dst);
    convert_elements(reinterpret_cast<const std::byte*>(row), DType::kFloat32, dst, dtype,
                     static_cast<size_t>(head_dim));
  }

  DType dtype;
  std::byte* memory;
  int64_t slots, heads, capacity, row_bytes, head_dim;
  bool is_ring;
  int64_t pinned;
};

/// The positions visible to a row at `position`, in order: the pinned ones and its window.
std::vector<int64_t> visible_positions(const graph::Node& node, int64_t position) {
  const int64_t pinned = std::min(node.integer_or("pinned", 0), position + 1);
  const int64_t window = node.integer_or("window", position + 1);
  const int64_t near = node.has("chunked") ? position / window * window : position - window + 1;
  const int64_t first = std::max(near, pinned);
  std::vector<int64_t> visible(static_cast<size_t>(pinned + std::max<int64_t>(position + 1 - first, 0)));
  std::iota(visible.begin(), visible.begin() + pinned, 0);
  std::iota(visible.begin() + pinned, visible.end(), first);
  return visible;
}

/// The operands of `attention`, in order; then optional per-head values and the query for the pinned keys.
enum AttentionOperand : size_t { kQ, kKeys, kValues, kSlot, kPosition, kPerHead };

/// One `attention` node.
class Attention {
 public:
  explicit Attention(const Call& call)
      : call_(call),
        keys_(call.operands[kKeys], call.node),
        values_(call.operands[kValues], call.node),
        scale_(static_cast<float>(call.node.number("scale"))),
        soft_cap_(static_cast<float>(call.node.number_or("soft_cap", 0.0))),
        value_columns_(call.node.integer_or("value_columns", values_.head_dim)) {
    const std::string per_head = call.node.has("per_head") ? call.node.text("per_head") : "";
    if (per_head == "sinks") sinks_ = call.operands[kPerHead].floats();
    if (per_head == "slopes") slopes_ = call.operands[kPerHead].floats();
    if (keys_.pinned > 0) pinned_q_ = call.operands.back().floats();
  }

  /// Computes row `t`, which must not be padding.
  Result<void> attend(int64_t t) const {
    const int64_t slot = call_.operands[kSlot].ints()[t];
    const int64_t position = call_.operands[kPosition].ints()[t];
    const std::vector<int64_t> visible = visible_positions(call_.node, position);
    const auto count = static_cast<int64_t>(visible.size());
    const std::vector<int64_t>& head_map = call_.node.integers("head_map");
    for (size_t head = 0; head < head_map.size(); ++head) {
      LOCKSTEP_TRY(const std::vector<float> shares, shares_of(t, slot, head, visible));
      const std::vector<float> v = values_.read(slot, head_map[head], visible);
      float* dst = call_.result->floats() + t * call_.result->columns() + static_cast<int64_t>(head) * value_columns_;
      LOCKSTEP_TRY_VOID(aten::multiply(aten::dense(shares.data(), 1, count),
                                       {v.data(), count, value_columns_, values_.head_dim},
                                       aten::dense(dst, 1, value_columns_)));
    }
    return ok();
  }

 private:
  /// The offset of head `head` of row `t` in q.
  int64_t offset_of(int64_t t, size_t head) const {
    return t * call_.operands[kQ].columns() + static_cast<int64_t>(head) * keys_.head_dim;
  }

  /// The softmax over the visible positions; a sink is included in the sum and then dropped.
  Result<std::vector<float>> shares_of(int64_t t, int64_t slot, size_t head,
                                       const std::vector<int64_t>& visible) const {
    LOCKSTEP_TRY(std::vector<float> scores, scores_of(t, slot, head, visible));
    if (sinks_ != nullptr) scores.push_back(sinks_[head]);
    const auto count = static_cast<int64_t>(scores.size());
    std::vector<float> shares(scores.size());
    LOCKSTEP_TRY_VOID(aten::softmax_rows(aten::dense(scores.data(), 1, count), aten::dense(shares.data(), 1, count)));
    shares.resize(visible.size());
    return shares;
  }

  Result<std::vector<float>> scores_of(int64_t t, int64_t slot, size_t head,
                                       const std::vector<int64_t>& visible) const {
    const int64_t h = keys_.head_dim;
    const std::vector<float> k = keys_.read(slot, call_.node.integers("head_map")[head], visible);
    std::vector<float> scores(visible.size());
    // The pinned keys come first and use their own query.
    const int64_t pinned = std::count_if(visible.begin(), visible.end(), [&](int64_t p) { return p < keys_.pinned; });
    const int64_t others = static_cast<int64_t>(visible.size()) - pinned;
    if (pinned > 0) LOCKSTEP_TRY_VOID(multiply_keys(pinned_q_ + offset_of(t, head), k.data(), pinned, scores.data()));
    LOCKSTEP_TRY_VOID(multiply_keys(call_.operands[kQ].floats() + offset_of(t, head), k.data() + pinned * h, others,
                                    scores.data() + pinned));
    const int32_t position = call_.operands[kPosition].ints()[t];
    for (size_t i = 0; i < scores.size(); ++i) {
      scores[i] *= scale_;
      if (soft_cap_ > 0) scores[i] = soft_cap_ * std::tanh(scores[i] / soft_cap_);
      if (slopes_ != nullptr) scores[i] += slopes_[head] * static_cast<float>(visible[i] - position);
    }
    return scores;
  }

  Result<void> multiply_keys(const float* q, const float* k, int64_t count, float* dst) const {
    return aten::multiply_transposed(aten::dense(q, 1, keys_.head_dim), aten::dense(k, count, keys_.head_dim),
                                     aten::dense(dst, 1, count));
  }

  const Call& call_;
  const Cache keys_;
  const Cache values_;
  const float scale_;
  const float soft_cap_;
  const int64_t value_columns_;
  const float* sinks_ = nullptr;
  const float* slopes_ = nullptr;
  const float* pinned_q_ = nullptr;
};

}  // namespace

Result<void> kv_append(const Call& call, const Environment&) {
  const Tensor& rows = call.operands[0];
  const Cache cache(call.operands[1], call.node);
  const int32_t* slot = call.operands[2].ints();
  const int32_t* position = call.operands[3].ints();
  for (int64_t t = 0; t < rows.rows(); ++t) {
    if (slot[t] < 0) continue;
    for (int64_t g = 0; g < cache.heads; ++g) {
      cache.write(slot[t], g, position[t], rows.floats() + t * rows.columns() + g * cache.head_dim);
    }
  }
  return ok();
}

Result<void> attention(const Call& call, const Environment&) {
  const Attention attention(call);
  std::fill_n(call.result->floats(), call.result->elements(), 0.0f);  // the result of padding rows
  for (int64_t t = 0; t < call.result->rows(); ++t) {
    if (call.operands[kSlot].ints()[t] >= 0) LOCKSTEP_TRY_VOID(attention.attend(t));
  }
  return ok();
}

}  // namespace lockstep::reference
