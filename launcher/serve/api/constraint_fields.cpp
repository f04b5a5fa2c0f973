// The constraint that a body asks for, in the form of runtime/constraint.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/serve/api/request_fields.h"

namespace lockstep::serve {
namespace {

ApiResult<Json> any_json(const BodyField& field) {
  LOCKSTEP_TRY(const bool wanted, field.flag());
  return wanted ? Json{{"type", "any_json"}} : Json();
}

/// A schema, as an object or as JSON text.
ApiResult<Json> schema(const BodyField& field) {
  if (field.value().is_object() || field.value().is_boolean()) {
    return Json{{"type", "json_schema"}, {"json_schema", field.value()}};
  }
  if (!field.value().is_string()) return field.expected("a JSON schema");
  LOCKSTEP_TRY(const std::string text, field.text());
  const auto parsed = parse_body(text);
  if (!parsed.has_value()) return field.invalid("found text that is not a JSON object, expected a JSON schema");
  return Json{{"type", "json_schema"}, {"json_schema", *parsed.value()}};
}

ApiResult<Json> regex(const BodyField& field) {
  LOCKSTEP_TRY(const std::string pattern, field.text());
  return Json{{"type", "regex"}, {"pattern", pattern}};
}

ApiResult<Json> grammar(const BodyField& field) {
  LOCKSTEP_TRY(const std::string text, field.text());
  return Json{{"type", "grammar"}, {"grammar", text}};
}

ApiResult<Json> choice(const BodyField& field) {
  LOCKSTEP_TRY(const auto fields, field.elements());
  if (fields.empty()) return field.invalid("found an empty list, expected at least one text");
  Json elements = Json::array();
  for (const BodyField& element : fields) {
    LOCKSTEP_TRY(const std::string text, element.text());
    elements.push_back({{"type", "const_string"}, {"value", text}});
  }
  return Json{{"type", "or"}, {"elements", std::move(elements)}};
}

using ConstraintReader = ApiResult<Json> (*)(const BodyField&);
struct ConstraintField {
  std::string_view name;
  ConstraintReader read;
};

ApiResult<Json> one_of(const BodyField& body, std::span<const ConstraintField> fields) {
  Json found;
  std::string_view first;
  for (const ConstraintField& row : fields) {
    const auto field = body.find(row.name);
    if (!field) continue;
    LOCKSTEP_TRY(Json constraint, row.read(*field));
    if (constraint.is_null()) continue;
    if (!found.is_null()) {
      return field->invalid(fmt::format("found it beside {}, expected one constraint; omit one of them", first));
    }
    found = std::move(constraint);
    first = row.name;
  }
  return found;
}

ApiResult<Json> structured_outputs(const BodyField& field) {
  constexpr ConstraintField kFields[] = {
      {"json", schema}, {"regex", regex}, {"choice", choice}, {"grammar", grammar}, {"json_object", any_json}};
  LOCKSTEP_TRY(const BodyField object, field.object());
  return one_of(object, kFields);
}

ApiResult<Json> response_format(const BodyField& field) {
  LOCKSTEP_TRY(const BodyField object, field.object());
  LOCKSTEP_TRY(const BodyField type_field, object.at("type"));
  LOCKSTEP_TRY(const std::string type, type_field.text());
  if (type == "text") return Json();
  if (type == "json_object") {
    const auto own = object.find("schema");  // llama.cpp's
    return own ? schema(*own) : ApiResult<Json>(Json{{"type", "any_json"}});
  }
  if (type == "json_schema") {
    LOCKSTEP_TRY(const BodyField outer, object.at("json_schema"));
    LOCKSTEP_TRY(const BodyField inner, outer.at("schema"));
    return schema(inner);
  }
  if (type == "regex") {
    LOCKSTEP_TRY(const BodyField pattern, object.at("pattern"));
    return regex(pattern);
  }
  if (type == "grammar") {
    LOCKSTEP_TRY(const BodyField text, object.at("grammar"));
    return grammar(text);
  }
  return type_field.invalid(
      fmt::format("found \"{}\", expected \"text\", \"json_object\", \"json_schema\", \"regex\" or \"grammar\"", type));
}

}  // namespace

ApiResult<std::string> read_constraint(const BodyField& body) {
  constexpr ConstraintField kFields[] = {{"response_format", response_format},
                                         {"structured_outputs", structured_outputs},
                                         {"regex", regex},
                                         {"choice", choice},
                                         {"grammar", grammar},
                                         {"guided_json", schema},
                                         {"guided_regex", regex},
                                         {"guided_choice", choice},
                                         {"guided_grammar", grammar}};
  LOCKSTEP_TRY(const Json constraint, one_of(body, kFields));
  return constraint.is_null() ? std::string() : to_line(constraint);
}

}  // namespace lockstep::serve
