// Reads an option's JSON value into its field. Returns false, without a change, for other forms.
#pragma once

#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/generation/generation_config.h"

namespace lockstep::generation {

bool read_option(const nlohmann::json& value, bool& field);
bool read_option(const nlohmann::json& value, double& field);
bool read_option(const nlohmann::json& value, int32_t& field);
bool read_option(const nlohmann::json& value, int64_t& field);
bool read_option(const nlohmann::json& value, uint64_t& field);
bool read_option(const nlohmann::json& value, std::string& field);
/// true, false or "never".
bool read_option(const nlohmann::json& value, EarlyStopping& field);
/// "lefthash" or "selfhash".
bool read_option(const nlohmann::json& value, WatermarkScheme& field);
/// [start, factor].
bool read_option(const nlohmann::json& value, LengthDecay& field);
/// An object; missing keys keep their defaults, unknown keys are rejected.
bool read_option(const nlohmann::json& value, Watermark& field);
/// [[[id, …], bias], …], or an empty object.
bool read_option(const nlohmann::json& value, std::vector<BiasedSequence>& field);
/// [[id, …], …].
bool read_option(const nlohmann::json& value, std::vector<std::vector<int32_t>>& field);

template <typename T>
bool read_option(const nlohmann::json& value, std::optional<T>& field) {
  T element{};
  if (!read_option(value, element)) return false;
  field = std::move(element);
  return true;
}

/// One element, or a list of them.
template <typename T>
bool read_option(const nlohmann::json& value, std::vector<T>& field) {
  std::vector<T> elements;
  for (const nlohmann::json& element : value.is_array() ? value : nlohmann::json::array({value})) {
    if (!read_option(element, elements.emplace_back())) return false;
  }
  field = std::move(elements);
  return true;
}

}  // namespace lockstep::generation
