#include "runtime/gguf/metadata.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/gguf/read_error.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

template <typename T>
T element(const MetadataValue& value, uint64_t index) {
  T result;
  std::memcpy(&result, value.bytes.data() + index * sizeof(T), sizeof(T));
  return result;
}

/// Element `index` of numbers or booleans.
json number(const MetadataValue& value, uint64_t index) {
  switch (value.type) {
    case ValueType::kUInt8: return element<uint8_t>(value, index);
    case ValueType::kInt8: return element<int8_t>(value, index);
    case ValueType::kUInt16: return element<uint16_t>(value, index);
    case ValueType::kInt16: return element<int16_t>(value, index);
    case ValueType::kUInt32: return element<uint32_t>(value, index);
    case ValueType::kInt32: return element<int32_t>(value, index);
    case ValueType::kUInt64: return element<uint64_t>(value, index);
    case ValueType::kInt64: return element<int64_t>(value, index);
    case ValueType::kFloat32: return shortest(element<float>(value, index));
    case ValueType::kFloat64: return element<double>(value, index);
    case ValueType::kBool: return element<uint8_t>(value, index) != 0;
    default: return json();
  }
}

Error wrong_type(const GgufHeader& header, std::string_view key, std::string_view expected) {
  return damaged(header.path, fmt::format("found another type in key {}, expected {}", key, expected));
}

bool is_finite(const json& number) { return !number.is_number_float() || std::isfinite(number.get<double>()); }

}  // namespace

double shortest(float number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  double result = number;
  std::from_chars(text, end, result);
  return result;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || text.size() - i < length) return false;
    uint32_t point = length == 1 ? lead : lead & (0x7fU >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if ((byte & 0xc0U) != 0x80U) return false;
      point = point << 6 | (byte & 0x3fU);
    }
    const bool is_long = (length == 3 && point < 0x800) || (length == 4 && (point < 0x10000 || point > 0x10ffff));
    if (is_long || (point >= 0xd800 && point <= 0xdfff)) return false;
    i += length;
  }
  return true;
}

Result<json> value_of(const GgufHeader& header, std::string_view key) {
  const MetadataValue* const value = header.find(key);
  if (value == nullptr) return json();
  if (value->type == ValueType::kString) {
    if (value->is_array) return wrong_type(header, key, "a scalar or numbers");
    LOCKSTEP_TRY(auto text, text_of(header, key));
    return json(*std::move(text));
  }
  json result = json::array();
  for (uint64_t i = 0; i < value->count; ++i) {
    result.push_back(number(*value, i));
    if (!is_finite(result.back()))
      return damaged(header.path,
                     fmt::format("found {} in key {}, expected a number", result.back().get<double>(), key));
  }
  return value->is_array ? result : result.front();
}

Result<std::optional<int64_t>> integer_of(const GgufHeader& header, std::string_view key) {
  LOCKSTEP_TRY(const json value, value_of(header, key));
  if (value.is_null()) return std::optional<int64_t>();
  if (!value.is_number_integer() || value > std::numeric_limits<int64_t>::max()) {
    return wrong_type(header, key, "an integer of 63 bits");
  }
  return std::optional(value.get<int64_t>());
}

Result<std::optional<bool>> boolean_of(const GgufHeader& header, std::string_view key) {
  LOCKSTEP_TRY(const json value, value_of(header, key));
  if (value.is_null()) return std::optional<bool>();
  if (!value.is_boolean()) return wrong_type(header, key, "a boolean");
  return std::optional(value.get<bool>());
}

Result<std::optional<std::string>> text_of(const GgufHeader& header, std::string_view key) {
  const MetadataValue* const value = header.find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (value->type != ValueType::kString || value->is_array) return wrong_type(header, key, "a string");
  std::string text = value->bytes.substr(sizeof(uint64_t));
  if (!is_utf8(text)) return damaged(header.path, fmt::format("found other bytes in key {}, expected UTF-8", key));
  return std::optional(std::move(text));
}

Result<std::vector<std::string_view>> texts_of(const GgufHeader& header, std::string_view key) {
  const MetadataValue* const value = header.find(key);
  std::vector<std::string_view> texts;
  if (value == nullptr) return texts;
  if (value->type != ValueType::kString || !value->is_array) return wrong_type(header, key, "an array of strings");
  texts.reserve(value->count);
  std::string_view rest = value->bytes;
  for (uint64_t i = 0; i < value->count; ++i) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, rest.data(), sizeof bytes);
    texts.push_back(rest.substr(sizeof bytes, bytes));
    rest.remove_prefix(sizeof bytes + bytes);
  }
  return texts;
}

Result<std::vector<double>> numbers_of(const GgufHeader& header, std::string_view key) {
  const MetadataValue* const value = header.find(key);
  std::vector<double> numbers;
  if (value == nullptr) return numbers;
  if (value->type == ValueType::kString || value->type == ValueType::kBool || !value->is_array) {
    return wrong_type(header, key, "an array of numbers");
  }
  numbers.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) numbers.push_back(number(*value, i).get<double>());
  return numbers;
}

}  // namespace lockstep::gguf
