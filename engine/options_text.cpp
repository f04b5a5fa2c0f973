#include "engine/options_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::json;

// How each type of a field is written and read; structs by the lists of their fields.

Json write(const Bytes& value) { return value.value; }
Json write(const std::filesystem::path& value) { return value.string(); }

template <typename T>
Json write(const T& value);

template <typename T>
Json write(const std::optional<T>& value) {
  return value ? write(*value) : Json();
}

template <typename T>
Json write(const T& value) {
  if constexpr (HasFields<const T>) {
    Json json = Json::object();
    for_each_field(value, [&](std::string_view name, const auto& field) { json[std::string(name)] = write(field); });
    return json;
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<int64_t>(value);
  } else {
    return value;
  }
}

void read(const Json& json, Bytes& value) { value = Bytes(json.get<int64_t>()); }
void read(const Json& json, std::filesystem::path& value) { value = json.get<std::string>(); }

template <typename T>
void read(const Json& json, T& value);

template <typename T>
void read(const Json& json, std::optional<T>& value) {
  if (json.is_null()) return value.reset();
  read(json, value.emplace());
}

template <typename T>
void read(const Json& json, T& value) {
  if constexpr (HasFields<T>) {
    for_each_field(value, [&](std::string_view name, auto& field) { read(json.at(std::string(name)), field); });
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(json.get<int64_t>());
  } else {
    value = json.get<T>();
  }
}

}  // namespace

std::string to_text(const EngineOptions& options) {
  return write(options).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<EngineOptions> parse_engine_options(const std::string& text) {
  try {
    EngineOptions options;
    read(Json::parse(text), options);
    return options;
  } catch (const Json::exception& failure) {
    return Error{ErrorKind::kInternal, fmt::format("[engine] cannot read the options of rank 0: {}", failure.what())};
  }
}

}  // namespace lockstep
