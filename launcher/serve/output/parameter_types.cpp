#include "launcher/serve/output/parameter_types.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/serve/output/json_scanner.h"
#include "launcher/serve/output/schema_reference.h"

namespace lockstep::serve {
namespace {

using Json = nlohmann::json;

constexpr int kMostLooks = 200;  // at references and alternatives of a parameter, which may refer to each other

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \n\r\t";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

std::string type_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_array()) return "array";
  return value.is_object() ? "object" : "string";
}

/// Adds what `schema` allows. `root` has the definitions.
void collect(const Json& schema, const Json& root, int& looks, ValueTypes& found) {
  if (!schema.is_object() || ++looks > kMostLooks) return;
  if (schema.contains("$ref")) {
    if (const Json* definition = definition_of(schema["$ref"], root)) collect(*definition, root, looks, found);
  }
  if (schema.contains("type")) {
    const Json list = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    for (const Json& type : list) {
      if (type.is_string()) found.names.insert(type.get<std::string>());
    }
  }
  Json values = schema.contains("enum") && schema["enum"].is_array() ? schema["enum"] : Json::array();
  if (schema.contains("const")) values.push_back(schema["const"]);
  for (const Json& value : values) found.names.insert(type_of(value));
  for (const char* key : {"enum", "const", "pattern", "format", "minLength", "maxLength"}) {
    found.is_limited = found.is_limited || schema.contains(key);
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    if (!schema.contains(key) || !schema[key].is_array()) continue;
    for (const Json& one : schema[key]) collect(one, root, looks, found);
  }
}

ValueTypes types_of(const Json& schema, const Json& root) {
  ValueTypes found{.names = {}};
  int looks = 0;
  collect(schema, root, looks, found);
  return found.names.empty() ? ValueTypes{} : found;
}

}  // namespace

ParameterTypes::ParameterTypes(const std::vector<Tool>& tools) {
  for (const Tool& tool : tools) {
    const Json schema = Json::parse(tool.parameters, nullptr, /*allow_exceptions=*/false);
    if (!schema.is_object() || !schema.contains("properties") || !schema["properties"].is_object()) continue;
    for (const auto& [name, property] : schema["properties"].items()) {
      types_[tool.name][name] = types_of(property, schema);
    }
  }
}

ValueTypes ParameterTypes::of(std::string_view function, std::string_view parameter) const {
  const auto tool = types_.find(function);
  if (tool == types_.end()) return {};
  const auto found = tool->second.find(parameter);
  return found == tool->second.end() ? ValueTypes{} : found->second;
}

std::string typed_value(const ValueTypes& types, std::string_view text) {
  if (types.is_any_text()) return json_string(text);
  std::string plain(trimmed(text));
  if (plain == "True") plain = "true";
  if (plain == "False") plain = "false";
  if (plain == "None") plain = "null";
  const Json value = Json::parse(plain, nullptr, /*allow_exceptions=*/false);
  if (!value.is_discarded() && !value.is_string()) {
    const std::string type = type_of(value);
    if (types.names.contains(type) || (type == "integer" && types.names.contains("number"))) return plain;
  }
  return json_string(types.is_limited ? trimmed(text) : text);
}

}  // namespace lockstep::serve
