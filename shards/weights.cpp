#include "shards/weights.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/core/hash.h"

namespace lockstep::shards {
namespace {

int64_t elements_of(std::span<const Range> ranges) {
  int64_t elements = 1;
  for (const Range& range : ranges) elements *= range.size();
  return elements;
}

bool is_whole(std::span<const Range> ranges, const Shape& whole) {
  for (size_t axis = 0; axis < ranges.size(); ++axis) {
    if (ranges[axis] != Range{0, whole[axis]}) return false;
  }
  return true;
}

/// A well-mixed value in (−1, 1) for the element `index` of the tensor with hash `seed`.
float signed_unit(uint64_t seed, uint64_t index) {
  uint64_t x = seed + index * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return static_cast<float>(static_cast<int64_t>((x ^ (x >> 31)) >> 40)) * 0x1p-23f - 1.0f;
}

}  // namespace

Result<void> RandomWeights::read(const std::string& tensor, const Shape& whole, std::span<const Range> ranges,
                                 DType dtype, std::span<std::byte> dst) const {
  LOCKSTEP_CHECK(whole.rank() == ranges.size() && whole.rank() >= 1 && whole.rank() <= 2, whole.rank());
  const uint64_t seed = Fingerprint().add(tensor).value();
  const bool is_vector = whole.rank() == 1;
  const Range columns = is_vector ? Range{0, 1} : ranges[1];
  const int64_t width = is_vector ? 1 : whole[1];
  // Vectors are norm weights and biases: around one. Matrices keep the scale of their input.
  const float scale = is_vector ? 0.1f : std::sqrt(3.0f / static_cast<float>(width));
  const float centre = is_vector ? 1.0f : 0.0f;
  std::byte* out = dst.data();
  for (int64_t row = ranges[0].begin; row < ranges[0].end; ++row) {
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      const float value = centre + scale * signed_unit(seed, static_cast<uint64_t>(row * width + column));
      convert_elements(reinterpret_cast<const std::byte*>(&value), DType::kFloat32, out, dtype, 1);
      out += size_of(dtype);
    }
  }
  return ok();
}

Result<std::vector<TensorFingerprint>> load_weights(const graph::Graph& graph,
                                                    const std::map<std::string, Shape>& tensors,
                                                    const WeightSource& source, device::Store& store) {
  std::vector<TensorFingerprint> replicated;
  std::vector<std::byte> staging;
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kWeight)) {
    const graph::Value& weight = graph.value(id);
    staging.resize(static_cast<size_t>(weight.type.bytes()));
    size_t offset = 0;
    for (const graph::WeightSlice& slice : weight.slices) {
      const auto whole = tensors.find(slice.tensor);
      LOCKSTEP_CHECK(whole != tensors.end(), slice.tensor);
      const size_t bytes = static_cast<size_t>(elements_of(slice.range)) * size_of(weight.type.dtype);
      LOCKSTEP_CHECK(offset + bytes <= staging.size(), slice.tensor, offset, bytes, staging.size());
      const std::span<std::byte> part = std::span(staging).subspan(offset, bytes);
      LOCKSTEP_TRY_VOID(source.read(slice.tensor, whole->second, slice.range, weight.type.dtype, part));
      if (is_whole(slice.range, whole->second)) {
        replicated.push_back({slice.tensor, Fingerprint().add_bytes(part).value()});
      }
      offset += bytes;
    }
    LOCKSTEP_TRY_VOID(store.set_weight(weight.name, staging));
  }
  return replicated;
}

}  // namespace lockstep::shards
