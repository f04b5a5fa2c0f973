#include "runtime/generation/option_values.h"

#include <utility>

namespace lockstep::generation {

using Json = nlohmann::json;

namespace {

/// nlohmann's comparisons take an unsigned number above 63 bits for a negative one.
template <typename T>
bool read_signed(const Json& value, T& field) {
  if (!value.is_number_integer()) return false;
  const bool fits =
      value.is_number_unsigned() ? std::in_range<T>(value.get<uint64_t>()) : std::in_range<T>(value.get<int64_t>());
  if (fits) field = value.get<T>();
  return fits;
}

}  // namespace

bool read_option(const Json& value, bool& field) {
  if (!value.is_boolean()) return false;
  field = value.get<bool>();
  return true;
}

bool read_option(const Json& value, double& field) {
  if (!value.is_number()) return false;
  field = value.get<double>();
  return true;
}

bool read_option(const Json& value, int32_t& field) { return read_signed(value, field); }

bool read_option(const Json& value, int64_t& field) { return read_signed(value, field); }

bool read_option(const Json& value, uint64_t& field) {
  if (!value.is_number_unsigned()) return false;
  field = value.get<uint64_t>();
  return true;
}

bool read_option(const Json& value, std::string& field) {
  if (!value.is_string()) return false;
  field = value.get<std::string>();
  return true;
}

bool read_option(const Json& value, EarlyStopping& field) {
  if (!value.is_boolean() && value != "never") return false;
  field = value == true ? EarlyStopping::kYes : value == false ? EarlyStopping::kNo : EarlyStopping::kNever;
  return true;
}

bool read_option(const Json& value, WatermarkScheme& field) {
  if (value != "lefthash" && value != "selfhash") return false;
  field = value == "lefthash" ? WatermarkScheme::kLeftHash : WatermarkScheme::kSelfHash;
  return true;
}

bool read_option(const Json& value, LengthDecay& field) {
  if (!value.is_array() || value.size() != 2) return false;
  LengthDecay decay;
  if (!read_option(value[0], decay.start) || !read_option(value[1], decay.factor)) return false;
  field = decay;
  return true;
}

bool read_option(const Json& value, Watermark& field) {
  if (!value.is_object()) return false;
  Watermark watermark;
  for (const auto& [key, element] : value.items()) {
    const bool is_read = key == "greenlist_ratio"  ? read_option(element, watermark.green_share)
                         : key == "bias"           ? read_option(element, watermark.bias)
                         : key == "hashing_key"    ? read_option(element, watermark.hashing_key)
                         : key == "seeding_scheme" ? read_option(element, watermark.scheme)
                         : key == "context_width"  ? read_option(element, watermark.context)
                                                   : false;
    if (!is_read) return false;
  }
  field = watermark;
  return true;
}

bool read_option(const Json& value, std::vector<BiasedSequence>& field) {
  if (!value.is_array() && value != Json::object()) return false;
  std::vector<BiasedSequence> sequences;
  for (const Json& element : value) {
    if (!element.is_array() || element.size() != 2 || !element[0].is_array()) return false;
    BiasedSequence& sequence = sequences.emplace_back();
    if (!read_option(element[0], sequence.ids) || !read_option(element[1], sequence.bias)) return false;
  }
  field = std::move(sequences);
  return true;
}

bool read_option(const Json& value, std::vector<std::vector<int32_t>>& field) {
  if (!value.is_array()) return false;
  std::vector<std::vector<int32_t>> lists;
  for (const Json& element : value) {
    if (!element.is_array() || !read_option(element, lists.emplace_back())) return false;
  }
  field = std::move(lists);
  return true;
}

}  // namespace lockstep::generation
