#include "engine/python/callbacks.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

namespace lockstep::python {
namespace {

template <typename T>
nb::object owning_array(std::unique_ptr<T[]> values, std::initializer_list<size_t> shape) {
  T* const data = values.get();
  const nb::capsule owner(values.release(), [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
}

/// [rows, n], all of one length.
nb::object ids_array(std::span<const std::vector<int32_t>> rows) {
  const size_t length = rows.front().size();
  auto values = std::make_unique<int64_t[]>(rows.size() * length);
  for (size_t row = 0; row < rows.size(); ++row) std::ranges::copy(rows[row], values.get() + row * length);
  return owning_array(std::move(values), {rows.size(), length});
}

/// Copies of scores, because a function may keep its array. The memory is used again once no array refers to it: new
/// memory of a vocabulary's size would come from the system at each step. With the GIL.
class ScoresCopies {
 public:
  /// [rows, V].
  nb::object array(std::span<const float> scores, size_t rows) {
    if (memory_.use_count() != 1 || size_ != scores.size()) {
      memory_ = std::make_shared_for_overwrite<float[]>(scores.size());
      size_ = scores.size();
    }
    std::memcpy(memory_.get(), scores.data(), scores.size_bytes());
    const nb::capsule owner(new std::shared_ptr<float[]>(memory_),
                            [](void* held) noexcept { delete static_cast<std::shared_ptr<float[]>*>(held); });
    return nb::cast(nb::ndarray<nb::numpy, float>(memory_.get(), {rows, size_ / rows}, owner));
  }

 private:
  std::shared_ptr<float[]> memory_;  // shared with the arrays
  size_t size_ = 0;
};

class PythonProcessor final : public LogitsProcessor {
 public:
  PythonProcessor(std::shared_ptr<CallState> state, nb::handle function)
      : state_(std::move(state)), function_(function) {}

  void process(std::span<const int32_t> ids, std::span<float> scores) const override {
    const std::vector<int32_t> row(ids.begin(), ids.end());
    process_rows({&row, 1}, scores);
  }

  void process_rows(std::span<const std::vector<int32_t>> rows, std::span<float> scores) const override {
    using Scores = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
    state_->call_python([&] {
      const nb::object changed = function_(ids_array(rows), copies_.array(scores, rows.size()));
      const auto array = nb::cast<Scores>(changed);
      std::memcpy(scores.data(), array.data(), scores.size_bytes());
    });
  }

 private:
  std::shared_ptr<CallState> state_;
  nb::handle function_;  // owned by the state
  mutable ScoresCopies copies_;
};

class PythonCriterion final : public StoppingCriterion {
 public:
  PythonCriterion(std::shared_ptr<CallState> state, nb::handle function)
      : state_(std::move(state)), function_(function) {}

  bool is_met(std::span<const int32_t> ids, std::span<const float> scores) const override {
    const std::vector<int32_t> row(ids.begin(), ids.end());
    return state_->call_python([&] {
      return nb::cast<bool>(function_(ids_array({&row, 1}), copies_.array(scores, /*rows=*/1)));
    });
  }
  FinishReason reason() const override { return FinishReason::kStop; }

 private:
  std::shared_ptr<CallState> state_;
  nb::handle function_;  // owned by the state
  mutable ScoresCopies copies_;
};

}  // namespace

void add_callbacks(Request& request, const Callbacks& callbacks, int64_t index,
                   const std::shared_ptr<CallState>& state) {
  if (!callbacks.process.is_none()) {
    request.processors = {std::make_shared<PythonProcessor>(state, state->own(callbacks.process))};
  }
  if (!callbacks.is_met.is_none()) {
    request.criteria = {std::make_shared<PythonCriterion>(state, state->own(callbacks.is_met))};
  }
  if (callbacks.allowed.is_none()) return;
  request.allowed_tokens = [state, index, function = state->own(callbacks.allowed)](int64_t /*request*/,
                                                                                    std::span<const int32_t> ids) {
    const std::vector<int32_t> row(ids.begin(), ids.end());
    return state->call_python([&] {
      return nb::cast<std::vector<int32_t>>(function(index, ids_array({&row, 1}).attr("__getitem__")(0)));
    });
  };
}

}  // namespace lockstep::python
