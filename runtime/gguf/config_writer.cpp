#include "runtime/gguf/config_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "runtime/gguf/metadata.h"
#include "runtime/gguf/read_error.h"

namespace lockstep::gguf {

using nlohmann::json;

std::string ConfigWriter::full(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }

Error ConfigWriter::wrong(std::string_view key, std::string_view found_and_expected) const {
  return damaged(model_.path(), fmt::format("key {}: {}", full(key), found_and_expected));
}

Error ConfigWriter::unsupported(std::string_view found_and_expected) const {
  return gguf::unsupported(model_.path(), found_and_expected);
}

Result<json> ConfigWriter::value(std::string_view key) const {
  LOCKSTEP_TRY(json found, value_of(model_.parts.front(), full(key)));
  if (!found.is_array() || found.empty()) return found;
  const bool are_equal = std::ranges::all_of(found, [&](const json& other) { return other == found.front(); });
  return are_equal ? found.front() : found;
}

Result<int64_t> ConfigWriter::integer(std::string_view key) const {
  LOCKSTEP_TRY(const json found, value(key));
  constexpr int64_t kMost = int64_t{1} << 40;
  const bool fits = found.is_number_integer() && found <= kMost && found >= -kMost;
  if (!fits) return wrong(key, fmt::format("found {}, expected an integer of at most {}", found.dump(), kMost));
  return found.get<int64_t>();
}

Result<int64_t> ConfigWriter::integer_or(std::string_view key, int64_t otherwise) const {
  if (!has(key)) return otherwise;
  return integer(key);
}

Result<double> ConfigWriter::number_or(std::string_view key, double otherwise) const {
  LOCKSTEP_TRY(const json found, value(key));
  if (found.is_null()) return otherwise;
  if (!found.is_number()) return wrong(key, fmt::format("found {}, expected a number", found.dump()));
  return found.get<double>();
}

Result<void> ConfigWriter::copy(std::span<const KeyPair> pairs) {
  for (const KeyPair& pair : pairs) {
    LOCKSTEP_TRY(json found, value(pair.key));
    if (!found.is_null()) config_[std::string(pair.name)] = std::move(found);
  }
  return ok();
}

void ConfigWriter::rename(std::string_view name, std::string_view to) {
  const auto found = config_.find(std::string(name));
  if (found == config_.end()) return;
  json value = std::move(*found);
  config_.erase(found);
  config_[std::string(to)] = std::move(value);
}

Result<std::vector<float>> ConfigWriter::floats(std::string_view tensor) const {
  constexpr int64_t kMost = 1 << 20;
  for (const GgufHeader& part : model_.parts) {
    const TensorRecord* const record = part.find_tensor(tensor);
    if (record == nullptr) continue;
    if (record->type->name != "F32" || record->shape.size() != 1 || record->shape[0] > kMost) {
      return gguf::unsupported(part.path, fmt::format("found tensor {} of type {}, expected at most {} numbers of F32",
                                                      tensor, record->type->name, kMost));
    }
    std::vector<float> values(static_cast<size_t>(record->shape[0]));
    std::ifstream file(part.path, std::ios::binary);
    file.seekg(record->offset);
    file.read(reinterpret_cast<char*>(values.data()), record->bytes);
    if (!file)
      return damaged(part.path, fmt::format("found no {} bytes of tensor {}, expected them", record->bytes, tensor));
    return values;
  }
  return damaged(model_.path(), fmt::format("found no tensor {}, expected it", tensor));
}

Result<void> leave_out_drafting_layers(ConfigWriter& writer) {
  LOCKSTEP_TRY(const int64_t drafting, writer.integer_or("nextn_predict_layers", 0));
  LOCKSTEP_TRY(const int64_t layers, writer.integer("block_count"));
  writer.config()["num_hidden_layers"] = layers - drafting;
  return ok();
}

}  // namespace lockstep::gguf
