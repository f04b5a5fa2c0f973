// Products of matrices: sums in f32, rounded once at the end. Operands are laid out as [batch, rows, contracted] first,
// where they do not lie so already; every element of the result is then a product of two contiguous rows.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "tests/neuron_stand_in/interpreter/box.h"
#include "tests/neuron_stand_in/interpreter/elements.h"
#include "tests/neuron_stand_in/interpreter/step.h"

namespace lockstep::stand_in {
namespace {

/// Eight partial sums, so that the compiler can use vectors.
float product(const float* x, const float* y, int64_t count) {
  constexpr int64_t kLanes = 8;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  }
  for (; i < count; ++i) sums[0] += x[i] * y[i];
  return std::accumulate(sums, sums + kLanes, 0.0f);
}

/// One side of a product as f32 [batch, rows, contracted].
struct Side {
  Operand operand;
  Box box;  // from the operand to that layout
  int64_t batches = 1, rows = 1, contracted = 1;
  bool lies_so = false;              // f32 in that layout already
  std::shared_ptr<std::byte[]> raw;  // shared by the copies that std::function makes of a step
  std::shared_ptr<float[]> values;

  int64_t elements_in_all() const { return batches * rows * contracted; }

  /// The operand in that layout.
  const float* lay_out(const Memory& memory) const {
    if (lies_so) return elements<F32>(operand.in(memory));
    const hlo::Element element = operand.type.element;
    if (element == hlo::Element::kF32) {
      copy_box(box, sizeof(float), operand.in(memory), reinterpret_cast<std::byte*>(values.get()));
      return values.get();
    }
    copy_box(box, hlo::size_of(element), operand.in(memory), raw.get());
    with_element(element, [&](auto s) {
      using S = decltype(s);
      const auto* from = elements<S>(static_cast<const std::byte*>(raw.get()));
      for (int64_t i = 0; i < elements_in_all(); ++i)
        values[static_cast<size_t>(i)] = static_cast<float>(S::load(from[i]));
    });
    return values.get();
  }
};

Result<Side> side_of(const Placed& placed, size_t number, const std::vector<int64_t>& batch,
                     const std::vector<int64_t>& contracting) {
  Side side{.operand = placed.operands[number]};
  const std::vector<int64_t>& dims = side.operand.type.dims;
  const std::vector<int64_t> strides = row_major(dims);
  std::vector<bool> is_used(dims.size());
  int64_t* product_of = nullptr;
  const auto add = [&](size_t dimension) {
    is_used[dimension] = true;
    side.box.dims.push_back(dims[dimension]);
    side.box.src_strides.push_back(strides[dimension]);
    *product_of *= dims[dimension];
  };
  for (const auto* named : {&batch, &contracting}) {
    for (const int64_t dimension : *named) {
      if (dimension < 0 || static_cast<size_t>(dimension) >= dims.size()) return placed.unsupported("its dimensions");
      is_used[static_cast<size_t>(dimension)] = true;
    }
  }
  const std::vector<bool> is_named = is_used;
  product_of = &side.batches;
  for (const int64_t dimension : batch) add(static_cast<size_t>(dimension));
  product_of = &side.rows;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!is_named[d]) add(d);
  }
  product_of = &side.contracted;
  for (const int64_t dimension : contracting) add(static_cast<size_t>(dimension));
  side.box.dst_strides = row_major(side.box.dims);
  side.box = flattened(std::move(side.box));
  const bool is_contiguous = side.box.src_strides == side.box.dst_strides;
  side.lies_so = is_contiguous && side.operand.type.element == hlo::Element::kF32;
  if (!side.lies_so) {
    const auto count = static_cast<size_t>(side.elements_in_all());
    side.values = std::make_shared<float[]>(count);
    side.raw = std::make_shared<std::byte[]>(count * hlo::size_of(side.operand.type.element));
  }
  return side;
}

}  // namespace

Result<Run> make_dot(const Placed& placed) {
  const hlo::DotDims& dims = placed.instruction.dot;
  LOCKSTEP_TRY(const Side lhs, side_of(placed, 0, dims.lhs_batch, dims.lhs_contracting));
  LOCKSTEP_TRY(const Side rhs, side_of(placed, 1, dims.rhs_batch, dims.rhs_contracting));
  const Operand& y = placed.result();
  const bool fits = lhs.batches == rhs.batches && lhs.contracted == rhs.contracted &&
                    y.type.elements() == lhs.batches * lhs.rows * rhs.rows;
  if (!fits || !hlo::is_float(y.type.element)) return placed.unsupported("its types");
  return with_element(y.type.element, [&](auto s) -> Result<Run> {
    using S = decltype(s);
    if constexpr (std::is_same_v<typename S::Value, float>) {
      return Run([=](const Memory& memory) -> Outcome {
        const float *x = lhs.lay_out(memory), *w = rhs.lay_out(memory);
        auto* out = elements<S>(y.out(memory));
        const int64_t k = lhs.contracted;
        for (int64_t b = 0; b < lhs.batches; ++b) {
          for (int64_t m = 0; m < lhs.rows; ++m) {
            const float* row = x + (b * lhs.rows + m) * k;
            for (int64_t n = 0; n < rhs.rows; ++n) *out++ = S::store(product(row, w + (b * rhs.rows + n) * k, k));
          }
        }
        return {};
      });
    }
    return placed.unsupported("this element type");
  });
}

}  // namespace lockstep::stand_in
