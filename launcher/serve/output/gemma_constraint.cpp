#include "launcher/serve/output/gemma_constraint.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/serve/output/constraint_parts.h"
#include "launcher/serve/output/schema_reference.h"

namespace lockstep::serve {
namespace {

constexpr std::string_view kMark = "<escape>";
constexpr int kDeepest = 16;
constexpr size_t kMostParts = 4096;  // of a constraint: references and optional properties multiply a small schema
constexpr std::array<std::string_view, 11> kIgnored = {"title",      "description", "default",   "examples",
                                                       "deprecated", "readOnly",    "writeOnly", "$comment",
                                                       "$defs",      "definitions", "type"};

Error unsupported(std::string_view found) {
  return {ErrorKind::kUnsupported,
          "[launcher/serve/output] cannot constrain the arguments of a function in this model's format: found " +
              std::string(found) +
              ", expected types, properties, required, items, enum, const, anyOf and limits of lengths and numbers; "
              "simplify the schema, or set tool_choice to \"auto\""};
}

size_t count_parts(const Json& constraint) {
  size_t count = 1;
  if (constraint.is_structured()) {
    for (const Json& part : constraint) count += count_parts(part);
  }
  return count;
}

Result<void> check_size(size_t parts) {
  if (parts <= kMostParts) return ok();
  return unsupported("a schema with more than " + std::to_string(kMostParts) + " parts");
}

Json marked(Json content) { return tag(kMark, std::move(content), kMark); }

/// A property of an object, written as name:value.
struct Member {
  Json written;
  bool is_required = false;
};

/// An object with these members. Optional ones may be absent, so the first one that is present has no comma before it:
///
///   a? b! c?   ─►   {a,b c?} or {b c?}
Json braced(const std::vector<Member>& members) {
  std::vector<Json> bodies;
  bool may_be_empty = true;
  for (size_t first = 0; first < members.size() && may_be_empty; ++first) {
    std::vector<Json> body = {const_text("{"), members[first].written};
    for (size_t i = first + 1; i < members.size(); ++i) {
      Json next = sequence({const_text(","), members[i].written});
      body.push_back(members[i].is_required ? std::move(next) : repeat(std::move(next), 0, 1));
    }
    body.push_back(const_text("}"));
    bodies.push_back(sequence(body));
    may_be_empty = !members[first].is_required;
  }
  if (may_be_empty) bodies.push_back(const_text("{}"));
  return bodies.size() == 1 ? bodies.front() : either(bodies);
}

/// Schemas and their definitions as constraints.
class Notation {
 public:
  explicit Notation(const Json& root) : root_(root) {}

  Result<Json> object(const Json& schema, int depth) const;

 private:
  Result<Json> value(const Json& schema, int depth) const;
  Result<Json> of_type(const Json& schema, const std::string& type, int depth) const;
  Result<Json> array(const Json& schema, int depth) const;
  Result<Json> reference(const Json& schema, int depth) const;
  static Result<Json> string(const Json& schema);
  static Result<Json> constant(const Json& value);

  const Json& root_;
};

/// Fails for a keyword that is not in `known` and would be ignored.
Result<void> check_keywords(const Json& schema, const std::vector<std::string_view>& known) {
  for (const auto& [key, value] : schema.items()) {
    const bool is_known = std::ranges::find(known, key) != known.end();
    if (!is_known && std::ranges::find(kIgnored, key) == std::end(kIgnored)) return unsupported("the keyword " + key);
  }
  return ok();
}

/// Of a schema that names none.
Json usual_types(const Json& schema) {
  if (schema.contains("properties")) return "object";
  if (schema.contains("items")) return "array";
  return Json::array({"string", "number", "boolean", "null"});
}

int64_t count_of(const Json& schema, const char* key, int64_t otherwise) {
  return schema.contains(key) && schema[key].is_number_integer() ? schema[key].get<int64_t>() : otherwise;
}

Result<Json> Notation::constant(const Json& value) {
  if (value.is_string()) return marked(const_text(value.get<std::string>()));
  if (value.is_structured()) return unsupported("a constant that is an object or a list");
  return const_text(value.dump());
}

Result<Json> Notation::string(const Json& schema) {
  LOCKSTEP_TRY_VOID(check_keywords(schema, {"minLength", "maxLength"}));
  if (!schema.contains("minLength") && !schema.contains("maxLength")) return marked(any_text());
  const int64_t most = count_of(schema, "maxLength", -1);
  const std::string counts =
      std::to_string(count_of(schema, "minLength", 0)) + "," + (most < 0 ? "" : std::to_string(most));
  return marked(regex("[^<]{" + counts + "}"));  // no mark inside
}

Result<Json> Notation::array(const Json& schema, int depth) const {
  LOCKSTEP_TRY_VOID(check_keywords(schema, {"items", "minItems", "maxItems"}));
  LOCKSTEP_TRY(Json item, value(schema.value("items", Json::object()), depth + 1));
  const int64_t least = count_of(schema, "minItems", 0), most = count_of(schema, "maxItems", -1);
  if (most == 0) return const_text("[]");
  Json more = sequence({const_text(","), item});
  Json items =
      sequence({std::move(item), repeat(std::move(more), std::max<int64_t>(least - 1, 0), most < 0 ? -1 : most - 1)});
  if (least == 0) items = repeat(std::move(items), 0, 1);
  return sequence({const_text("["), std::move(items), const_text("]")});
}

Result<Json> Notation::reference(const Json& schema, int depth) const {
  if (const Json* definition = definition_of(schema["$ref"], root_)) return value(*definition, depth + 1);
  return unsupported("the reference " + schema["$ref"].dump());
}

Result<Json> Notation::of_type(const Json& schema, const std::string& type, int depth) const {
  if (type == "string") return string(schema);
  if (type == "object") return object(schema, depth);
  if (type == "array") return array(schema, depth);
  if (type == "boolean" || type == "null") {
    LOCKSTEP_TRY_VOID(check_keywords(schema, {}));
  } else if (type != "integer" && type != "number") {
    return unsupported("the type " + type);
  }
  Json limits = schema;  // of a number, which is written as in JSON
  limits["type"] = type;
  return json_schema(std::move(limits));
}

Result<Json> Notation::value(const Json& schema, int depth) const {
  if (depth > kDeepest) return unsupported("a schema that is deeper than 16, or contains itself");
  if (!schema.is_object()) return unsupported("a schema that is no object");
  if (schema.contains("$ref")) return reference(schema, depth);
  std::vector<Json> alternatives;
  size_t size = 0;
  const auto add = [&](Result<Json> alternative) -> Result<void> {
    LOCKSTEP_TRY(alternatives.emplace_back(), std::move(alternative));
    return check_size(size += count_parts(alternatives.back()));
  };
  if (schema.contains("const")) {
    LOCKSTEP_TRY_VOID(add(constant(schema["const"])));
  } else if (schema.contains("enum") && schema["enum"].is_array()) {
    for (const Json& one : schema["enum"]) LOCKSTEP_TRY_VOID(add(constant(one)));
  } else if (schema.contains("anyOf") && schema["anyOf"].is_array()) {
    for (const Json& one : schema["anyOf"]) LOCKSTEP_TRY_VOID(add(value(one, depth + 1)));
  } else {
    Json types = schema.value("type", usual_types(schema));
    if (!types.is_array()) types = Json::array({types});
    for (const Json& type : types) {
      if (!type.is_string()) return unsupported("a type that is no text");
      LOCKSTEP_TRY_VOID(add(of_type(schema, type.get<std::string>(), depth)));
    }
  }
  if (alternatives.empty()) return unsupported("a schema that no value fits");
  return alternatives.size() == 1 ? alternatives.front() : either(alternatives);
}

Result<Json> Notation::object(const Json& schema, int depth) const {
  LOCKSTEP_TRY_VOID(check_keywords(schema, {"properties", "required", "additionalProperties"}));
  const Json properties = schema.value("properties", Json::object());
  const Json required = schema.value("required", Json::array());
  if (!properties.is_object()) return unsupported("properties that are no object");
  if (properties.empty() && schema.contains("additionalProperties") && schema["additionalProperties"] != Json(false)) {
    return unsupported("an object with any properties");
  }
  const auto is_required = [&](const std::string& name) {
    return std::ranges::find(required, Json(name)) != required.end();
  };
  std::vector<Member> members;
  size_t size = 0, firsts = 1;
  bool may_be_empty = true;
  for (const auto& [name, property] : properties.items()) {
    if (name.find_first_of("{}[],:<\" \n") != std::string::npos) return unsupported("the property \"" + name + "\"");
    LOCKSTEP_TRY(Json written, value(property, depth + 1));
    members.push_back({sequence({const_text(name + ":"), std::move(written)}), is_required(name)});
    // A part stands in the body of each property that may be the first.
    LOCKSTEP_TRY_VOID(check_size(size += firsts * count_parts(members.back().written)));
    if (may_be_empty) ++firsts;
    may_be_empty = may_be_empty && !members.back().is_required;
  }
  return braced(members);
}

}  // namespace

Result<std::string> gemma_arguments_constraint(const std::string& schema) {
  const Json root = Json::parse(schema, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return unsupported("parameters that are no object");
  LOCKSTEP_TRY(const Json constraint, Notation(root).object(root, 0));
  return constraint.dump();
}

}  // namespace lockstep::serve
