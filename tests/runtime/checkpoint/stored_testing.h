// Checkpoints of a few stored tensors, and the values that they are read as.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/checkpoint/stored_tensors.h"
#include "tests/model/stored_tensor.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {

inline constexpr int64_t kHidden = 6, kQueryHeads = 3, kKeyHeads = 1, kHead = 2, kExperts = 2;

inline ModelSpec spec_of(const std::string& model_type) {
  ModelSpec spec;
  spec.model_type = model_type;
  spec.layers = 1;
  spec.hidden_size = kHidden;
  spec.query_heads = kQueryHeads;
  spec.key_value_heads = model_type == "phi3" ? kKeyHeads : kQueryHeads;
  spec.head_dim = kHead;
  spec.experts = kExperts;
  if (model_type == "deepseek_v3") spec.latent = {.rank = 4, .plain_dim = 2, .rotated_dim = 2, .value_dim = 3};
  return spec;
}

inline Result<std::unique_ptr<Checkpoint>> open_with(const TemporaryDirectory& directory, const std::string& model_type,
                                                     const std::vector<model::StoredTensor>& tensors) {
  model::write_safetensors(directory.path() / "model.safetensors", tensors);
  return open_model_checkpoint(directory.path(), spec_of(model_type));
}

inline std::vector<float> read_part(const Checkpoint& checkpoint, const std::string& name, const Shape& shape,
                                    const std::vector<Range>& ranges) {
  int64_t elements = 1;
  for (const Range& range : ranges) elements *= range.size();
  std::vector<float> values(static_cast<size_t>(elements), std::nanf(""));
  const auto read = checkpoint.read(name, shape, ranges, DType::kFloat32, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(read.has_value()) << read.error().message;
  return values;
}

/// The whole tensor and some of its parts hold `value(row, column)`.
inline void expect_matrix(const Checkpoint& checkpoint, const std::string& name, const Shape& shape,
                          const std::function<float(int64_t row, int64_t column)>& value) {
  const int64_t rows = shape[0], columns = shape[1];
  const std::vector<Range> parts[] = {{{0, rows}, {0, columns}},
                                      {{rows / 2, rows}, {0, columns}},
                                      {{0, rows}, {columns / 3, columns / 3 + 1}},
                                      {{1, rows - 1}, {1, columns}}};
  for (const auto& part : parts) {
    std::vector<float> expected;
    for (int64_t row = part[0].begin; row < part[0].end; ++row) {
      for (int64_t column = part[1].begin; column < part[1].end; ++column) expected.push_back(value(row, column));
    }
    EXPECT_EQ(read_part(checkpoint, name, shape, part), expected)
        << name << "[" << to_string(part[0]) << ", " << to_string(part[1]) << "]";
  }
}

inline void expect_vector(const Checkpoint& checkpoint, const std::string& name, const std::vector<float>& expected) {
  const auto size = static_cast<int64_t>(expected.size());
  EXPECT_EQ(read_part(checkpoint, name, {size}, {{0, size}}), expected) << name;
  EXPECT_EQ(read_part(checkpoint, name, {size}, {{1, size}}), std::vector<float>(expected.begin() + 1, expected.end()))
      << name;
}

}  // namespace lockstep::checkpoint
