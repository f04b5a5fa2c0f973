// Row-wise operations: norms, activations and caps.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

#include "runtime/backends/reference/activations.h"
#include "runtime/backends/reference/kernels.h"
#include "runtime/backends/reference/rounding.h"

namespace lockstep::reference {

Result<void> activate(std::string_view name, aten::ConstMatrix x, aten::Matrix dst) {
  if (name == "silu") return aten::silu(x, dst);
  if (name == "gelu") return aten::gelu(x, aten::GeluForm::kExact, dst);
  if (name == "gelu_tanh") return aten::gelu(x, aten::GeluForm::kTanh, dst);
  if (name == "sigmoid") {
    for (int64_t r = 0; r < x.rows; ++r) {
      const float* src = x.data + r * x.row_stride;
      std::transform(src, src + x.columns, dst.data + r * dst.row_stride,
                     [](float v) { return 1.0f / (1.0f + std::exp(-v)); });
    }
    return ok();
  }
  const bool is_squared = name == "squared_relu";
  LOCKSTEP_CHECK(is_squared || name == "relu", name);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t i = 0; i < x.columns; ++i) {
      const float v = x.data[r * x.row_stride + i];
      const float part = v < 0 ? 0.0f : v;  // keeps NaN
      dst.data[r * dst.row_stride + i] = is_squared ? part * part : part;
    }
  }
  return ok();
}

namespace {

float mean_square(std::span<const float> row) {
  float squares = 0;
  for (const float x : row) squares += x * x;
  return squares / static_cast<float>(row.size());
}

struct Moments {
  float mean, variance;
};

Moments moments_of(std::span<const float> row) {
  float sum = 0, squares = 0;
  for (const float x : row) sum += x;
  const float mean = sum / static_cast<float>(row.size());
  for (const float x : row) squares += (x - mean) * (x - mean);
  return {mean, squares / static_cast<float>(row.size())};
}

}  // namespace

Result<void> rms_norm(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const float* weight = call.operands.size() > 1 ? call.operands[1].floats() : nullptr;
  const int64_t width = x.columns() / std::max<int64_t>(call.node.integer_or("heads", 1), 1);
  const auto epsilon = static_cast<float>(call.node.number("epsilon"));
  const auto offset = static_cast<float>(call.node.number_or("offset", 0.0));
  const DType inner = call.node.has("offset") ? DType::kFloat32 : x.type.dtype;  // the type that x / root is rounded to
  const int64_t groups = width == 0 ? 0 : x.elements() / width;
  for (int64_t g = 0; g < groups; ++g) {
    const float* src = x.floats() + g * width;
    float* dst = call.result->floats() + g * width;
    const float root = std::sqrt(mean_square({src, static_cast<size_t>(width)}) + epsilon);
    for (int64_t i = 0; i < width; ++i) {
      dst[i] = ((weight != nullptr ? weight[i] : 1.0f) + offset) * round_to(inner, src[i] / root);
    }
  }
  return ok();
}

Result<void> layer_norm(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const float* weight = call.operands[1].floats();
  const float* bias = call.operands.size() > 2 ? call.operands[2].floats() : nullptr;
  const auto offset = static_cast<float>(call.node.number_or("offset", 0.0));
  const int64_t width = x.columns();
  const auto epsilon = static_cast<float>(call.node.number("epsilon"));
  for (int64_t r = 0; r < x.rows(); ++r) {
    const float* src = x.floats() + r * width;
    float* dst = call.result->floats() + r * width;
    const auto [mean, variance] = moments_of({src, static_cast<size_t>(width)});
    const float root = std::sqrt(variance + epsilon);
    for (int64_t i = 0; i < width; ++i) {
      dst[i] = (weight[i] + offset) * ((src[i] - mean) / root) + (bias != nullptr ? bias[i] : 0.0f);
    }
  }
  return ok();
}

Result<void> cut_off(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const auto deviations = static_cast<float>(call.node.number("deviations"));
  const int64_t width = x.columns();
  for (int64_t r = 0; r < x.rows(); ++r) {
    const float* src = x.floats() + r * width;
    const auto [mean, variance] = moments_of({src, static_cast<size_t>(width)});
    const float cut = mean + deviations * std::sqrt(variance);
    for (int64_t i = 0; i < width; ++i) {
      const float rest = src[i] - cut;
      call.result->floats()[r * width + i] = rest < 0 ? 0.0f : rest;  // keeps NaN
    }
  }
  return ok();
}

Result<void> fake_quantise(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const int64_t width = x.columns();
  const float* const scale = call.operands.size() > 1 ? call.operands[1].floats() : nullptr;
  const CodeRounding how{call.node.has("codes", "e4m3"), call.node.integer_or("group", width), scale};
  for (int64_t i = 0; i < x.elements(); i += width) {
    round_row({x.floats() + i, static_cast<size_t>(width)}, how, call.result->floats() + i);
  }
  return ok();
}

Result<void> take_columns(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const int64_t width = x.columns(), count = call.result->columns();
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t i = 0; i < count; ++i) {
      const float number = call.operands[1].floats()[i];
      const auto column = static_cast<int64_t>(std::isnan(number) ? 0 : std::clamp<float>(number, 0, width - 1));
      call.result->floats()[r * count + i] = x.floats()[r * width + column];
    }
  }
  return ok();
}

Result<void> match_magnitude(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const int64_t width = x.columns();
  const auto least = static_cast<float>(call.node.number("least"));
  for (int64_t r = 0; r < x.rows(); ++r) {
    const float* src = x.floats() + r * width;
    const float own = mean_square({src, static_cast<size_t>(width)});
    const float target = std::sqrt(mean_square({call.operands[1].floats() + r * width, static_cast<size_t>(width)}));
    const float factor = target / std::sqrt(own < least ? least : own);
    for (int64_t i = 0; i < width; ++i) call.result->floats()[r * width + i] = src[i] * factor;
  }
  return ok();
}

Result<void> weighted_sum(const Call& call, const Environment&) {
  const Tensor& factors = call.operands[0];
  const auto offset = static_cast<float>(call.node.number_or("offset", 0.0));
  const int64_t first = call.node.integer("first"), width = call.result->columns();
  for (int64_t r = 0; r < call.result->rows(); ++r) {
    const float* of_row = factors.floats() + r * factors.columns() + first;
    for (int64_t i = 0; i < width; ++i) {
      float sum = 0;
      for (size_t term = 1; term < call.operands.size(); ++term) {
        sum += (of_row[term - 1] + offset) * call.operands[term].floats()[r * width + i];
      }
      call.result->floats()[r * width + i] = sum;
    }
  }
  return ok();
}

Result<void> soft_cap(const Call& call, const Environment&) {
  const auto cap = static_cast<float>(call.node.number("cap"));
  const float* x = call.operands[0].floats();
  std::transform(x, x + call.result->elements(), call.result->floats(),
                 [=](float v) { return cap * std::tanh(v / cap); });
  return ok();
}

namespace {

/// Each row of operand 0 times `factor(row)`.
Result<void> scale_each_row(const Call& call, const std::function<float(int64_t)>& factor) {
  const Tensor& x = call.operands[0];
  for (int64_t r = 0; r < x.rows(); ++r) {
    const float* src = x.floats() + r * x.columns();
    std::transform(src, src + x.columns(), call.result->floats() + r * x.columns(),
                   [by = factor(r)](float v) { return v * by; });
  }
  return ok();
}

}  // namespace

Result<void> scale_rows(const Call& call, const Environment&) {
  return scale_each_row(call, [&](int64_t row) { return call.operands[1].floats()[row]; });
}

Result<void> scale_by_position(const Call& call, const Environment&) {
  const Tensor& factors = call.operands[2];
  const int64_t every = call.node.integer("every");
  const int64_t offset = call.node.integer_or("offset", 0);
  return scale_each_row(call, [&](int64_t row) {
    const int64_t place = (call.operands[1].ints()[row] + offset) / every;
    return factors.floats()[std::clamp<int64_t>(place, 0, factors.elements() - 1)];
  });
}

Result<void> activation(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  return activate(call.node.text("activation"), aten::dense(x.floats(), x.rows(), x.columns()),
                  aten::dense(call.result->floats(), x.rows(), x.columns()));
}

Result<void> gated_activation(const Call& call, const Environment&) {
  const Tensor& gate = call.operands[0];
  const bool packed = call.operands.size() == 1;  // [gate | up]
  const int64_t rows = call.result->rows();
  const int64_t width = call.result->columns();
  const float* up = packed ? gate.floats() + width : call.operands[1].floats();
  const int64_t stride = gate.columns();
  float* dst = call.result->floats();
  LOCKSTEP_TRY_VOID(
      activate(call.node.text("activation"), {gate.floats(), rows, width, stride}, aten::dense(dst, rows, width)));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) dst[r * width + i] *= up[r * stride + i];
  }
  return ok();
}

}  // namespace lockstep::reference
