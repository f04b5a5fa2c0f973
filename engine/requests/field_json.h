// Conversion of structs with field lists to JSON and back. A struct becomes an object with its field names, an
// enumeration becomes a number; infinities and NaN, which JSON lacks, become text.
#pragma once

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/core/field_list.h"
#include "runtime/core/ids.h"

namespace lockstep::field_json {

using Json = nlohmann::json;

inline Json write(const Bytes& value) { return value.value; }
inline Json write(const std::filesystem::path& value) { return value.string(); }

template <typename T>
Json write(const T& value);
template <typename T>
Json write(const std::vector<T>& values);

template <typename T>
Json write(const std::optional<T>& value) {
  return value ? write(*value) : Json();
}

template <typename T>
Json write(const std::vector<T>& values) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(write(value));
  return json;
}

template <typename T>
Json write(const T& value) {
  if constexpr (HasFields<const T>) {
    Json json = Json::object();
    for_each_field(value, [&](std::string_view name, const auto& field) { json[std::string(name)] = write(field); });
    return json;
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<int64_t>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
  } else {
    return value;
  }
}

template <typename T>
T exact_integer(const Json& json);

inline void read(const Json& json, Bytes& value) { value = Bytes(exact_integer<int64_t>(json)); }
inline void read(const Json& json, std::filesystem::path& value) { value = json.get<std::string>(); }

template <typename T>
void read(const Json& json, T& value);
template <typename T>
void read(const Json& json, std::vector<T>& values);

template <typename T>
void read(const Json& json, std::optional<T>& value) {
  if (json.is_null()) return value.reset();
  read(json, value.emplace());
}

template <typename T>
void read(const Json& json, std::vector<T>& values) {
  values.clear();
  for (const Json& element : json) read(element, values.emplace_back());
}

/// nlohmann converts any number to any type, where it does not fit with another value.
template <typename T>
T exact_integer(const Json& json) {
  const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>())
                                              : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
  if (!fits) throw Json::out_of_range::create(406, "found another number than expected", &json);
  return json.get<T>();
}

/// An infinity or NaN from the text that `write` makes of it.
template <typename T>
T number_of_text(const Json& json) {
  using Limits = std::numeric_limits<T>;
  for (const T value : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    if (write(value) == json) return value;
  }
  throw Json::type_error::create(302, "found text, expected a number", &json);
}

template <typename T>
void read(const Json& json, T& value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    value = exact_integer<T>(json);
  } else if constexpr (HasFields<T>) {
    for_each_field(value, [&](std::string_view name, auto& field) { read(json.at(std::string(name)), field); });
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(exact_integer<std::underlying_type_t<T>>(json));
  } else if constexpr (std::is_floating_point_v<T>) {
    value = json.is_string() ? number_of_text<T>(json) : json.get<T>();
  } else {
    value = json.get<T>();
  }
}

}  // namespace lockstep::field_json
