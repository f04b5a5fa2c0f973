#include "tests/model/hashed_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "tests/model/stored_tensor.h"

namespace lockstep::model {
namespace {

using Format = HashedModelLayout::Format;

uint64_t fnv1a(std::string_view text) {
  uint64_t state = 0xcbf29ce484222325ull;
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return state;
}

uint64_t key_of(uint64_t seed, std::string_view name) { return fnv1a(fmt::format("{}/{}", seed, name)); }

/// 24 bits.
int64_t bits_of(uint64_t key, uint64_t index) {
  uint64_t x = key + (index + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  x = x ^ (x >> 31);
  return static_cast<int64_t>(x >> 40);
}

float unit_of(uint64_t key, uint64_t index) { return static_cast<float>(bits_of(key, index) - (1 << 23)) * 0x1p-23f; }

StoredTensor stored_bytes(uint64_t seed, const HashedTensor& tensor, const HashedBytes& elements) {
  const std::vector<uint8_t> values = hashed_bytes(seed, tensor);
  const auto bytes = std::as_bytes(std::span(values));
  return {tensor.name, {DType::kUInt8, tensor.shape}, {bytes.begin(), bytes.end()}, elements.stored};
}

StoredTensor stored_order(const HashedTensor& tensor, const HashedOrder& order) {
  std::vector<int32_t> groups;
  for (int64_t column = 0; column < tensor.shape[0]; ++column) {
    groups.push_back(static_cast<int32_t>(column * order.step % tensor.shape[0] / order.group));
  }
  const auto bytes = std::as_bytes(std::span(groups));
  return {tensor.name, {DType::kInt32, tensor.shape}, {bytes.begin(), bytes.end()}};
}

StoredTensor stored(uint64_t seed, const HashedTensor& tensor, DType dtype) {
  if (const auto* bytes = std::get_if<HashedBytes>(&tensor.elements)) return stored_bytes(seed, tensor, *bytes);
  if (const auto* order = std::get_if<HashedOrder>(&tensor.elements)) return stored_order(tensor, *order);
  const DType floats = std::get<HashedFloats>(tensor.elements).dtype.value_or(dtype);
  const std::vector<float> values = hashed_tensor(seed, tensor);
  StoredTensor result{tensor.name, {floats, tensor.shape}, std::vector<std::byte>(values.size() * size_of(floats))};
  convert_elements(std::as_bytes(std::span(values)).data(), DType::kFloat32, result.bytes.data(), floats,
                   values.size());
  return result;
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  LOCKSTEP_CHECK(file.good(), path.string());
}

void write_file(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors, Format format) {
  if (format == Format::kTorch) return write_torch_file(path, tensors);
  if (format == Format::kOldTorch) return write_old_torch_file(path, tensors);
  write_safetensors(path, tensors);
}

}  // namespace

float hashed_unit(uint64_t seed, std::string_view name, uint64_t index) { return unit_of(key_of(seed, name), index); }

std::vector<float> hashed_tensor(uint64_t seed, const HashedTensor& tensor) {
  const HashedFloats floats = std::get<HashedFloats>(tensor.elements);
  const uint64_t key = key_of(seed, tensor.name);
  std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = floats.centre + floats.spread * unit_of(key, i);
  return values;
}

std::vector<uint8_t> hashed_bytes(uint64_t seed, const HashedTensor& tensor) {
  const HashedBytes bytes = std::get<HashedBytes>(tensor.elements);
  const uint64_t key = key_of(seed, tensor.name);
  const int64_t width = bytes.highest - bytes.lowest + 1;
  std::vector<uint8_t> values(static_cast<size_t>(tensor.shape.elements()) * (bytes.stored == "I32" ? 4 : 1));
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t number = bits_of(key, i);
    values[i] = static_cast<uint8_t>(bytes.has_sign ? bytes.lowest + number / 2 % width + number % 2 * 128
                                                    : bytes.lowest + number % width);
  }
  return values;
}

void write_hashed_weights(const std::filesystem::path& directory, const std::vector<HashedTensor>& tensors,
                          uint64_t seed, HashedModelLayout layout) {
  LOCKSTEP_CHECK(layout.files >= 1, layout.files);
  const bool torch = layout.format != Format::kSafetensors;
  const std::string stem = torch ? "pytorch_model" : "model", extension = torch ? ".bin" : ".safetensors";
  std::vector<std::vector<StoredTensor>> shards(static_cast<size_t>(layout.files));
  for (size_t i = 0; i < tensors.size(); ++i) {
    shards[i % shards.size()].push_back(stored(seed, tensors[i], layout.dtype));
  }
  if (layout.files == 1) return write_file(directory / (stem + extension), shards.front(), layout.format);
  nlohmann::json weight_map = nlohmann::json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fmt::format("{}-{:05}-of-{:05}{}", stem, i + 1, shards.size(), extension);
    for (const StoredTensor& tensor : shards[i]) weight_map[tensor.name] = file;
    write_file(directory / file, shards[i], layout.format);
  }
  write_text(directory / (stem + extension + ".index.json"), nlohmann::json{{"weight_map", weight_map}}.dump());
}

void write_hashed_model(const std::filesystem::path& directory, std::string_view config,
                        const std::vector<HashedTensor>& tensors, uint64_t seed, HashedModelLayout layout) {
  std::filesystem::create_directories(directory);
  write_text(directory / "config.json", config);
  write_hashed_weights(directory, tensors, seed, layout);
}

}  // namespace lockstep::model
