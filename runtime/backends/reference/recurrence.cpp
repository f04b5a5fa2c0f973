// Recurrent layers, evaluated row by row as they are defined: the blocks of runtime/graph/OPERATIONS.md are only how
// the states lie in memory.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/backends/reference/activations.h"
#include "runtime/backends/reference/kernels.h"
#include "runtime/device/row_limits.h"

namespace lockstep::reference {
namespace {

constexpr std::string_view kComponent = "runtime/backends/reference";

/// The rows' slots and positions, checked to be runs.
struct Runs {
  std::span<const int32_t> slots, positions;

  template <typename Visit>
  void for_each(Visit visit) const {
    device::for_each_run(slots, positions, visit);
  }
};

Result<Runs> runs_of(const Tensor& slot, const Tensor& position, int64_t slots) {
  const auto rows = static_cast<size_t>(slot.elements());
  const Runs runs{{slot.ints(), rows}, {position.ints(), rows}};
  device::RowCheck check(std::string(kComponent),
                         {.slots = slots, .positions = std::numeric_limits<int32_t>::max(), .in_runs = true});
  LOCKSTEP_TRY_VOID(check.run(runs.slots, runs.positions));
  return runs;
}

/// The operands of `gated_delta_rule`, in order.
enum DeltaOperand : size_t { kX, kGates, kALog, kDtBias, kKeys, kChanges, kDecays, kBorders, kSlot, kPosition };

/// One value head of one slot, moved row by row through the states.
class DeltaHead {
 public:
  DeltaHead(const Call& call, int64_t slot, int64_t head) : in_(call.operands), slot_(slot), head_(head) {
    const Shape& keys = in_[kKeys].type.shape;
    key_heads_ = keys[1] / 2;
    key_dim_ = keys[2];
    block_ = keys[3];
    heads_ = in_[kChanges].type.shape[1] / 2;
    value_dim_ = in_[kChanges].type.shape[3];
    key_head_ = call.node.integers("head_map")[static_cast<size_t>(head)];
    epsilon_ = static_cast<float>(call.node.number("epsilon"));
    state_.resize(static_cast<size_t>(key_dim_ * value_dim_));
  }

  /// The state before `position`, from the last border and the block's rows.
  void start_at(int64_t position) {
    const int64_t rows = position % block_, number = position / block_;
    std::ranges::fill(state_, 0.0f);
    if (number > 0 && rows > 0) std::copy_n(border(number), key_dim_ * value_dim_, state_.begin());
    if (number > 0 && rows == 0) replay(number - 1, block_);  // `step` makes the border
    if (rows > 0) replay(number, rows, /*begins=*/false);
  }

  void step(int64_t row, int64_t position, float* out) {
    const int64_t at = position % block_, number = position / block_;
    if (at == 0 && number > 0) std::ranges::copy(state_, border(number));
    const float* const x = in_[kX].floats() + row * in_[kX].columns();
    const std::vector<float> query = normed(x + key_head_ * key_dim_, 1.0f / std::sqrt(static_cast<float>(key_dim_)));
    const std::vector<float> key = normed(x + (key_heads_ + key_head_) * key_dim_, 1.0f);
    const float* const value = x + 2 * key_heads_ * key_dim_ + head_ * value_dim_;
    const float* const gates = in_[kGates].floats() + row * in_[kGates].columns();
    const float a = gates[heads_ + head_] + in_[kDtBias].floats()[head_];
    const float g = -std::exp(in_[kALog].floats()[head_]) * (a > 20.0f ? a : std::log1p(std::exp(a)));
    const float beta = 1.0f / (1.0f + std::exp(-gates[head_]));
    float* const decay = decays(number);
    decay[at] = (at > 0 ? decay[at - 1] : 0.0f) + g;
    for (float& element : state_) element *= std::exp(g);
    float* const change = changes(number) + at * value_dim_;
    for (int64_t v = 0; v < value_dim_; ++v) {
      float known = 0.0f;
      for (int64_t d = 0; d < key_dim_; ++d) known += key[static_cast<size_t>(d)] * at_state(d, v);
      change[v] = beta * (value[v] - known);
    }
    for (int64_t d = 0; d < key_dim_; ++d) keys(number)[d * block_ + at] = key[static_cast<size_t>(d)];
    add_row(number, at);
    for (int64_t v = 0; v < value_dim_; ++v) {
      out[v] = 0.0f;
      for (int64_t d = 0; d < key_dim_; ++d) out[v] += query[static_cast<size_t>(d)] * at_state(d, v);
    }
  }

 private:
  float& at_state(int64_t d, int64_t v) { return state_[static_cast<size_t>(d * value_dim_ + v)]; }
  int64_t place(int64_t number, int64_t heads, int64_t head) const { return (slot_ * 2 + number % 2) * heads + head; }
  float* keys(int64_t number) const {
    return in_[kKeys].floats() + place(number, key_heads_, key_head_) * key_dim_ * block_;
  }
  float* changes(int64_t number) const {
    return in_[kChanges].floats() + place(number, heads_, head_) * block_ * value_dim_;
  }
  float* decays(int64_t number) const { return in_[kDecays].floats() + place(number, heads_, head_) * block_; }
  float* border(int64_t number) const {
    return in_[kBorders].floats() + place(number, heads_, head_) * key_dim_ * value_dim_;
  }

  std::vector<float> normed(const float* x, float scale) const {
    float squares = 0.0f;
    for (int64_t d = 0; d < key_dim_; ++d) squares += x[d] * x[d];
    std::vector<float> result(static_cast<size_t>(key_dim_));
    for (int64_t d = 0; d < key_dim_; ++d) {
      result[static_cast<size_t>(d)] = x[d] * (scale / std::sqrt(squares + epsilon_));
    }
    return result;
  }

  void add_row(int64_t number, int64_t at) {
    const float* const change = changes(number) + at * value_dim_;
    for (int64_t d = 0; d < key_dim_; ++d) {
      const float key = keys(number)[d * block_ + at];
      for (int64_t v = 0; v < value_dim_; ++v) at_state(d, v) += key * change[v];
    }
  }

  /// Adds the first `rows` rows of a block to its border's state, read first if `begins`.
  void replay(int64_t number, int64_t rows, bool begins = true) {
    if (begins && number > 0) std::copy_n(border(number), key_dim_ * value_dim_, state_.begin());
    const float* const decay = decays(number);
    for (int64_t at = 0; at < rows; ++at) {
      const float factor = std::exp(decay[at] - (at > 0 ? decay[at - 1] : 0.0f));
      for (float& element : state_) element *= factor;
      add_row(number, at);
    }
  }

  const std::vector<Tensor>& in_;
  int64_t slot_, head_, key_head_ = 0, key_heads_ = 0, heads_ = 0, key_dim_ = 0, value_dim_ = 0, block_ = 0;
  float epsilon_ = 0.0f;
  std::vector<float> state_;  // [key_dim, value_dim]
};

}  // namespace

Result<void> causal_conv(const Call& call, const Environment&) {
  const Tensor &x = call.operands[0], &weight = call.operands[1], &kept = call.operands[2];
  const int64_t channels = x.columns(), taps = weight.columns(), kept_rows = kept.type.shape[1];
  LOCKSTEP_TRY(const Runs runs, runs_of(call.operands[3], call.operands[4], kept.type.shape[0]));
  float* const out = call.result->floats();
  std::fill_n(out, call.result->elements(), 0.0f);
  const auto size = static_cast<int64_t>(size_of(kept.held));
  std::vector<float> earlier(static_cast<size_t>(channels));
  runs.for_each([&](const device::RowRun& run) {
    const auto kept_at = [&](int64_t position) {
      return kept.memory + (run.slot * kept_rows + position % kept_rows) * channels * size;
    };
    for (int64_t i = 0; i < run.count; ++i) {
      float* const sum = out + (run.first + i) * channels;
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t back = taps - 1 - tap, position = run.position + i - back;
        if (position < 0) continue;
        const float* row = x.floats() + (run.first + i - back) * channels;
        if (back > i) {
          convert_elements(kept_at(position), kept.held, reinterpret_cast<std::byte*>(earlier.data()), DType::kFloat32,
                           earlier.size());
          row = earlier.data();
        }
        for (int64_t n = 0; n < channels; ++n) sum[n] += weight.floats()[n * taps + tap] * row[n];
      }
      convert_elements(reinterpret_cast<const std::byte*>(x.floats() + (run.first + i) * channels), DType::kFloat32,
                       kept_at(run.position + i), kept.held, earlier.size());
    }
  });
  if (!call.node.has("activation")) return ok();
  const aten::Matrix rows = aten::dense(out, x.rows(), channels);
  return activate(call.node.text("activation"), rows, rows);
}

Result<void> gated_delta_rule(const Call& call, const Environment&) {
  const std::vector<Tensor>& in = call.operands;
  LOCKSTEP_TRY(const Runs runs, runs_of(in[kSlot], in[kPosition], in[kKeys].type.shape[0]));
  const int64_t heads = in[kALog].elements(), width = in[kChanges].type.shape[3];
  float* const out = call.result->floats();
  std::fill_n(out, call.result->elements(), 0.0f);
  runs.for_each([&](const device::RowRun& run) {
    std::vector<DeltaHead> all;  // row by row, because some share keys, which lie in the place of earlier ones
    for (int64_t head = 0; head < heads; ++head) all.emplace_back(call, run.slot, head).start_at(run.position);
    for (int64_t row = run.first; row < run.first + run.count; ++row) {
      for (int64_t head = 0; head < heads; ++head) {
        all[static_cast<size_t>(head)].step(row, run.position + row - run.first, out + (row * heads + head) * width);
      }
    }
  });
  return ok();
}

}  // namespace lockstep::reference
