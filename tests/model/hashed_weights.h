// Random tiny models that every machine builds alike: a weight is a pure function of (seed, tensor name, index), made
// of integer arithmetic and two float32 roundings. The goldens in tests/model/goldens were made from the same weights
// by tools/make_llama_goldens.py, which states the rule:
//
//   key   = FNV-1a 64 of "<seed>/<tensor name>"
//   mix   = splitmix64's finaliser of key + (index + 1) · 0x9e3779b97f4a7c15
//   unit  = (mix >> 40) / 2^23 − 1            24 bits, in [−1, 1), exact in float32
//   value = centre + spread · unit            (1, 0.5) for norm weights, (0, the recipe's spread) for the others
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/shape.h"

namespace lockstep::model {

/// Which weights a model gets: the golden's object "weights".
struct WeightRecipe {
  uint64_t seed = 1;
  float bias = 0.25f;
  float embedding = 1.0f;
  float head = 0.5f;
  float matrix = 0.25f;
};

/// A tensor of a checkpoint.
struct TensorName {
  std::string name;
  Shape shape;
};

/// Element `index` (row-major) of the tensor `name`, in [−1, 1), before centre and spread.
float hashed_unit(uint64_t seed, std::string_view name, uint64_t index);

/// The values of a whole tensor, row-major.
std::vector<float> hashed_tensor(const WeightRecipe& recipe, const TensorName& tensor);

/// The tensors of a Llama checkpoint, in the order in which they are written.
std::vector<TensorName> llama_tensors(const checkpoint::ModelSpec& spec);

/// How `write_hashed_model` lays the weights out.
struct HashedModelLayout {
  DType dtype = DType::kFloat32;
  int files = 1;  // 1: model.safetensors; more: shards and an index, tensors dealt out in turn
};

/// Writes `tensors` as safetensors (and an index, if there are several files) into `directory`, which exists.
void write_hashed_weights(const std::filesystem::path& directory, const std::vector<TensorName>& tensors,
                          const WeightRecipe& recipe, HashedModelLayout layout);

/// Writes a Hugging Face directory of a Llama model: `config` (the text of config.json) and its weights. `directory` is
/// made. Fails as `checkpoint::parse_spec` does.
Result<void> write_hashed_model(const std::filesystem::path& directory, std::string_view config,
                                const WeightRecipe& recipe, HashedModelLayout layout);

}  // namespace lockstep::model
