#include "tests/model/hashed_weights.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

namespace lockstep::model {
namespace {

using nlohmann::json;

uint64_t fnv1a(std::string_view text) {
  uint64_t state = 0xcbf29ce484222325ull;
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return state;
}

float unit_of(uint64_t key, uint64_t index) {
  uint64_t x = key + (index + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  x = x ^ (x >> 31);
  return static_cast<float>(static_cast<int64_t>(x >> 40) - (1 << 23)) * 0x1p-23f;
}

uint64_t key_of(uint64_t seed, std::string_view name) { return fnv1a(fmt::format("{}/{}", seed, name)); }

struct Distribution {
  float centre;
  float spread;
};

Distribution distribution_of(const WeightRecipe& recipe, std::string_view name) {
  if (name.ends_with("norm.weight")) return {1.0f, 0.5f};
  if (name.ends_with(".bias")) return {0.0f, recipe.bias};
  if (name == "model.embed_tokens.weight") return {0.0f, recipe.embedding};
  if (name == "lm_head.weight") return {0.0f, recipe.head};
  return {0.0f, recipe.matrix};
}

void add_linear(std::vector<TensorName>& tensors, const std::string& name, int64_t rows, int64_t columns,
                bool has_bias) {
  tensors.push_back({name + ".weight", {rows, columns}});
  if (has_bias) tensors.push_back({name + ".bias", {rows}});
}

std::string_view stored_name(DType dtype) {
  return dtype == DType::kFloat32 ? "F32" : dtype == DType::kBFloat16 ? "BF16" : "F16";
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  LOCKSTEP_CHECK(file.good(), path.string());
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorName>& tensors,
                       const WeightRecipe& recipe, DType dtype) {
  json header = {{"__metadata__", {{"format", "pt"}}}};
  std::vector<std::byte> data;
  for (const TensorName& tensor : tensors) {
    const std::vector<float> values = hashed_tensor(recipe, tensor);
    const size_t begin = data.size();
    data.resize(begin + values.size() * size_of(dtype));
    convert_elements(std::as_bytes(std::span(values)).data(), DType::kFloat32, data.data() + begin, dtype,
                     values.size());
    header[tensor.name] = {
        {"dtype", stored_name(dtype)}, {"shape", tensor.shape.dims()}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::ofstream file(path, std::ios::binary);
  const uint64_t length = text.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  LOCKSTEP_CHECK(file.good(), path.string());
}

}  // namespace

float hashed_unit(uint64_t seed, std::string_view name, uint64_t index) { return unit_of(key_of(seed, name), index); }

std::vector<float> hashed_tensor(const WeightRecipe& recipe, const TensorName& tensor) {
  const Distribution distribution = distribution_of(recipe, tensor.name);
  const uint64_t key = key_of(recipe.seed, tensor.name);
  std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = distribution.centre + distribution.spread * unit_of(key, i);
  }
  return values;
}

std::vector<TensorName> llama_tensors(const checkpoint::ModelSpec& spec) {
  const int64_t hidden = spec.hidden_size;
  const int64_t inner = spec.intermediate_size;
  const int64_t query = spec.query_heads * spec.head_dim;
  const int64_t key_value = spec.key_value_heads * spec.head_dim;
  std::vector<TensorName> tensors = {{"model.embed_tokens.weight", {spec.vocabulary, hidden}}};
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    tensors.push_back({at + "input_layernorm.weight", {hidden}});
    tensors.push_back({at + "post_attention_layernorm.weight", {hidden}});
    add_linear(tensors, at + "self_attn.q_proj", query, hidden, spec.attention_bias);
    add_linear(tensors, at + "self_attn.k_proj", key_value, hidden, spec.attention_bias);
    add_linear(tensors, at + "self_attn.v_proj", key_value, hidden, spec.attention_bias);
    add_linear(tensors, at + "self_attn.o_proj", hidden, query, spec.attention_bias);
    add_linear(tensors, at + "mlp.gate_proj", inner, hidden, spec.mlp_bias);
    add_linear(tensors, at + "mlp.up_proj", inner, hidden, spec.mlp_bias);
    add_linear(tensors, at + "mlp.down_proj", hidden, inner, spec.mlp_bias);
  }
  tensors.push_back({"model.norm.weight", {hidden}});
  if (!spec.tied_embeddings) tensors.push_back({"lm_head.weight", {spec.vocabulary, hidden}});
  return tensors;
}

void write_hashed_weights(const std::filesystem::path& directory, const std::vector<TensorName>& tensors,
                          const WeightRecipe& recipe, HashedModelLayout layout) {
  LOCKSTEP_CHECK(layout.files >= 1, layout.files);
  if (layout.files == 1) return write_safetensors(directory / "model.safetensors", tensors, recipe, layout.dtype);
  std::vector<std::vector<TensorName>> shards(static_cast<size_t>(layout.files));
  for (size_t i = 0; i < tensors.size(); ++i) shards[i % shards.size()].push_back(tensors[i]);
  json weight_map = json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const TensorName& tensor : shards[i]) weight_map[tensor.name] = file;
    write_safetensors(directory / file, shards[i], recipe, layout.dtype);
  }
  write_text(directory / "model.safetensors.index.json", json{{"weight_map", weight_map}}.dump());
}

Result<void> write_hashed_model(const std::filesystem::path& directory, std::string_view config,
                                const WeightRecipe& recipe, HashedModelLayout layout) {
  LOCKSTEP_TRY(const checkpoint::ModelSpec spec, checkpoint::parse_spec(config, "config.json"));
  std::filesystem::create_directories(directory);
  write_text(directory / "config.json", config);
  write_hashed_weights(directory, llama_tensors(spec), recipe, layout);
  return ok();
}

}  // namespace lockstep::model
