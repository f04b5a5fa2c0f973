// Random tiny checkpoints, equal on every machine. An element is a pure function of (seed, tensor name, index),
// made of integer arithmetic and two float32 roundings. The goldens in tests/model/goldens were made from the same
// checkpoints by tools/make_family_goldens.py, which states the rule:
//
//   key   = FNV-1a 64 of "<seed>/<tensor name>"
//   mix   = splitmix64's finaliser of key + (index + 1) · 0x9e3779b97f4a7c15
//   unit  = (mix >> 40) / 2^23 − 1                        24 bits, in [−1, 1), exact in float32
//   float = centre + spread · unit
//   byte  = lowest + (mix >> 40) mod (highest − lowest + 1)
//
// and of quantised models (tests/model/goldens/quantised) by tools/make_quantised_model_goldens.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/core/shape.h"

namespace lockstep::model {

/// A tensor of floating-point numbers in [centre − spread, centre + spread).
struct HashedFloats {
  float centre = 0.0f;
  float spread = 0.25f;
  std::optional<DType> dtype = std::nullopt;  // none: that of the model
};

/// A tensor of bytes from `lowest` to `highest`: packed weights and their scales.
struct HashedBytes {
  int lowest = 0;
  int highest = 255;
  std::string stored = "U8";  // its type in the file; words ("I32") have four bytes each
  bool has_sign = false;      // bytes are lowest + number / 2, and the number's lowest bit is their sign
};

/// The groups of the columns of a matrix, not in their order: column c of n is in group (c · step mod n) / group.
struct HashedOrder {
  int64_t step = 1;
  int64_t group = 1;
};

/// A tensor of a checkpoint.
struct HashedTensor {
  std::string name;
  Shape shape;
  std::variant<HashedFloats, HashedBytes, HashedOrder> elements;
};

/// Element `index` (row-major) of the tensor `name`, in [−1, 1), before centre and spread.
float hashed_unit(uint64_t seed, std::string_view name, uint64_t index);

/// The values of a tensor of floats, row-major.
std::vector<float> hashed_tensor(uint64_t seed, const HashedTensor& tensor);

/// The values of a tensor of bytes, row-major.
std::vector<uint8_t> hashed_bytes(uint64_t seed, const HashedTensor& tensor);

/// How a checkpoint is laid out on disk.
struct HashedModelLayout {
  enum class Format { kSafetensors, kTorch, kOldTorch };  // model.safetensors, or pytorch_model.bin of either format

  DType dtype = DType::kFloat32;  // of the floats
  int files = 1;                  // more: shards and an index, tensors dealt out in turn
  Format format = Format::kSafetensors;
};

/// Writes `tensors` (and an index, if there are several files) into `directory`, which exists.
void write_hashed_weights(const std::filesystem::path& directory, const std::vector<HashedTensor>& tensors,
                          uint64_t seed, HashedModelLayout layout);

/// Writes a Hugging Face directory: `config` (the text of config.json) and the weights. `directory` is made.
void write_hashed_model(const std::filesystem::path& directory, std::string_view config,
                        const std::vector<HashedTensor>& tensors, uint64_t seed, HashedModelLayout layout);

}  // namespace lockstep::model
