#include "runtime/constraint/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/constraint/constraint.h"

namespace lockstep::constraint {
namespace {

using Json = nlohmann::ordered_json;  // properties are generated in the schema's order

constexpr size_t kMostText = 64 * 1024;
constexpr int kMostDepth = 48;
constexpr int64_t kMostRepeats = 4096;  // a count of a schema or an expression

Error invalid(std::string_view found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/constraint] cannot read the constraint: found {}, expected {}", found, expected)};
}

Error unsupported(std::string_view keyword, std::string_view expected) {
  return {ErrorKind::kUnsupported,
          fmt::format("[runtime/constraint] cannot honour the constraint: found {}, expected {}", keyword, expected)};
}

bool is_one_of(std::string_view key, std::span<const std::string_view> keys) {
  return std::ranges::find(keys, key) != keys.end();
}

constexpr std::array<std::string_view, 12> kAnnotations = {"title",      "description", "default",   "examples",
                                                           "deprecated", "readOnly",    "writeOnly", "$comment",
                                                           "$schema",    "$id",         "$defs",     "definitions"};
constexpr std::array<std::string_view, 4> kTexts = {"minLength", "maxLength", "pattern", "format"};
constexpr std::array<std::string_view, 4> kNumbers = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
constexpr std::array<std::string_view, 4> kArrays = {"items", "prefixItems", "minItems", "maxItems"};
constexpr std::array<std::string_view, 3> kObjects = {"properties", "required", "additionalProperties"};
constexpr std::array<std::string_view, 6> kFormats = {"email", "date", "time", "date-time", "ipv4", "uuid"};
constexpr std::array<std::string_view, 7> kTypes = {"null",   "boolean", "object", "array",
                                                    "number", "integer", "string"};

/// Walks a JSON schema and rejects what would not be honoured in full.
class SchemaCheck {
 public:
  Result<void> check(const Json& schema, int depth) {
    if (schema.is_boolean()) {
      if (schema.get<bool>()) return ok();
      return unsupported("the schema false", "one that some value fits");
    }
    if (!schema.is_object()) return invalid("a schema that is no object", "an object");
    if (depth > kMostDepth) return invalid(fmt::format("a schema deeper than {}", kMostDepth), "a flatter one");
    for (const std::string_view alone : {"$ref", "anyOf", "allOf", "enum", "const"}) {
      if (schema.contains(alone)) {
        LOCKSTEP_TRY_VOID(check_alone(schema, alone));
      }
    }
    LOCKSTEP_TRY_VOID(check_type(schema));
    for (const auto& [key, value] : schema.items()) LOCKSTEP_TRY_VOID(check_keyword(schema, key, value, depth));
    if ((schema.contains("pattern") || schema.contains("format")) &&
        (schema.contains("minLength") || schema.contains("maxLength") ||
         (schema.contains("pattern") && schema.contains("format")))) {
      return unsupported("pattern or format beside another limit of a string", "one of them");
    }
    return ok();
  }

 private:
  /// These are used without the keywords beside them, except a type that agrees.
  static Result<void> check_alone(const Json& schema, std::string_view alone) {
    const bool may_have_type = alone == "enum" || alone == "const";
    for (const auto& [key, value] : schema.items()) {
      if (key == alone || is_one_of(key, kAnnotations)) continue;
      if (key == "type" && may_have_type) continue;
      return unsupported(fmt::format("{} beside {}", key, alone), "one of them; move the other into it");
    }
    return ok();
  }

  static bool fits_type(const Json& value, std::string_view type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    return type == "integer" ? value.is_number_integer() : value.is_number();
  }

  static Result<void> check_type(const Json& schema) {
    std::vector<std::string> types;
    if (schema.contains("type")) {
      const Json& type = schema["type"];
      const Json list = type.is_array() ? type : Json::array({type});
      for (const Json& one : list) {
        if (!one.is_string() || !is_one_of(one.get_ref<const std::string&>(), kTypes)) {
          return invalid(fmt::format("the type {}", one.dump()), "a type of JSON Schema");
        }
        types.push_back(one);
      }
    }
    if (types.empty()) return ok();
    Json values = schema.contains("enum") ? schema["enum"] : Json::array();
    if (schema.contains("const")) values.push_back(schema["const"]);
    for (const Json& value : values) {
      if (std::ranges::any_of(types, [&](const std::string& type) { return fits_type(value, type); })) continue;
      return unsupported(fmt::format("the value {} that does not have the schema's type", value.dump()),
                         "values of that type");
    }
    return ok();
  }

  Result<void> check_keyword(const Json& schema, const std::string& key, const Json& value, int depth) {
    if (key == "$defs" || key == "definitions" || key == "properties") {
      if (!value.is_object()) return invalid(fmt::format("{} that is no object", key), "an object");
      for (const auto& [name, one] : value.items()) LOCKSTEP_TRY_VOID(check(one, depth + 1));
      return ok();
    }
    if (key == "anyOf" || key == "allOf" || key == "prefixItems") {
      if (!value.is_array() || value.empty()) return invalid(fmt::format("{} without schemas", key), "a list of them");
      if (key == "allOf" && value.size() > 1) return unsupported("allOf with several schemas", "one schema");
      for (const Json& one : value) LOCKSTEP_TRY_VOID(check(one, depth + 1));
      return ok();
    }
    if (key == "items" || key == "additionalProperties") {
      if (value.is_boolean()) return ok();
      return check(value, depth + 1);
    }
    if (key == "$ref") {
      const bool is_local = value.is_string() && value.get_ref<const std::string&>().starts_with('#');
      if (is_local) return ok();
      return unsupported("a $ref to another document", "#/$defs/NAME");
    }
    if (key == "minLength" || key == "maxLength" || key == "minItems" || key == "maxItems") {
      const bool fits = value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() <= kMostRepeats;
      if (!fits) return invalid(fmt::format("{} {}", key, value.dump()), fmt::format("0 to {}", kMostRepeats));
    }
    if (key == "pattern") {
      if (!value.is_string()) return invalid("a pattern that is no text", "an expression");
      LOCKSTEP_TRY_VOID(check_regex(value.get_ref<const std::string&>()));
      LOCKSTEP_TRY_VOID(check_pattern(value.get_ref<const std::string&>()));
    }
    if (key == "required") LOCKSTEP_TRY_VOID(check_required(schema, value));
    if (key == "format" && !(value.is_string() && is_one_of(value.get_ref<const std::string&>(), kFormats))) {
      return unsupported(fmt::format("the format {}", value.dump()), "email, date, time, date-time, ipv4 or uuid");
    }
    return check_name(schema, key);
  }

  /// xgrammar writes what fits a pattern between quotes as it is: a character that JSON escapes would end the text, or
  /// begin an escape.
  static Result<void> check_pattern(std::string_view pattern) {
    const auto found = [](std::string_view what) {
      return unsupported(fmt::format("{} in the pattern of a schema", what), "characters that JSON does not escape");
    };
    for (size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] == '"') return found("a quote");
      if (static_cast<unsigned char>(pattern[i]) < ' ') return found("a control character");
      if (pattern[i] == '[' && pattern.substr(i).starts_with("[^]")) return found("[^]");
      if (pattern[i] != '\\') continue;
      const char next = ++i < pattern.size() ? pattern[i] : '\\';
      if (std::string_view("\\\"xucnrtfv").find(next) != std::string_view::npos)
        return found(fmt::format("\\{}", next));
    }
    return ok();
  }

  /// xgrammar passes over the name of a property that is not described.
  static Result<void> check_required(const Json& schema, const Json& required) {
    if (!required.is_array()) return invalid("required that is no list", "a list of names");
    for (const Json& name : required) {
      if (!name.is_string()) return invalid(fmt::format("{} in required", name.dump()), "the name of a property");
      const bool is_described = schema.contains("properties") && schema["properties"].is_object() &&
                                schema["properties"].contains(name.get_ref<const std::string&>());
      if (is_described) continue;
      return unsupported(fmt::format("the required property {}, which properties does not have", name.dump()),
                         "required properties among properties");
    }
    return ok();
  }

  /// A keyword counts only beside the type that it limits.
  static Result<void> check_name(const Json& schema, std::string_view key) {
    if (is_one_of(key, kAnnotations) || key == "type" || key == "enum" || key == "const") return ok();
    const auto has_type = [&](std::string_view type) { return schema.contains("type") && schema["type"] == type; };
    if (is_one_of(key, kTexts)) {
      if (has_type("string")) return ok();
      return unsupported(fmt::format("{} without type string", key), "that type");
    }
    if (is_one_of(key, kNumbers)) {
      if (has_type("number") || has_type("integer")) return ok();
      return unsupported(fmt::format("{} without type number or integer", key), "one of them");
    }
    if (is_one_of(key, kArrays)) {
      if (has_type("array")) return ok();
      return unsupported(fmt::format("{} without type array", key), "that type");
    }
    if (is_one_of(key, kObjects)) {
      if (has_type("object") || key == "properties") return ok();
      return unsupported(fmt::format("{} without type object", key), "that type");
    }
    return unsupported(fmt::format("the keyword {}", key), "keywords that are served");
  }
};

/// Checks a format and writes it in xgrammar's form.
class Translation {
 public:
  Result<Json> translate(const Json& format, int depth) {
    if (!format.is_object() || !format.contains("type") || !format["type"].is_string()) {
      return invalid("a part that is no object with a type", "{\"type\": …}");
    }
    if (depth > kMostDepth) return invalid(fmt::format("parts deeper than {}", kMostDepth), "fewer");
    const std::string type = format["type"];
    if (type == "json_schema") return schema(format);
    if (type == "any_json") return any_json(format);
    if (type == "any_text") return allow(format, {});
    if (type == "regex") {
      LOCKSTEP_TRY(const std::string pattern, text_of(format, "pattern"));
      LOCKSTEP_TRY_VOID(check_regex(pattern));
      return allow(format, {"pattern"});
    }
    if (type == "grammar" || type == "const_string") {
      const std::string key = type == "grammar" ? "grammar" : "value";
      LOCKSTEP_TRY(const std::string value, text_of(format, key));
      if (type == "const_string") literals_.push_back(value);
      return allow(format, {key});
    }
    if (type == "sequence" || type == "or") return parts(format, "elements", {}, depth);
    if (type == "tag") return tag(format, depth);
    if (type == "repeat") return repeat(format, depth);
    if (type == "tags_with_separator") {
      LOCKSTEP_TRY(const std::string separator, text_of(format, "separator"));
      literals_.push_back(separator);
      return parts(format, "tags", {"separator", "at_least_one", "stop_after_first"}, depth);
    }
    if (type == "triggered_tags") {
      if (!format.contains("triggers") || !format["triggers"].is_array()) {
        return invalid("triggered_tags without triggers", "a list of texts");
      }
      for (const Json& trigger : format["triggers"]) {
        if (!trigger.is_string()) return invalid("a trigger that is no text", "a text");
        literals_.push_back(trigger);
      }
      return parts(format, "tags", {"triggers", "at_least_one", "stop_after_first"}, depth);
    }
    return unsupported(fmt::format("the type {}", type), "a type of constraint that is served");
  }

  std::vector<std::string> literals() { return std::move(literals_); }

 private:
  /// `format`: may have a style.
  static Result<Json> json_of(const Json& format, Json schema) {
    Json made{{"type", "json_schema"}, {"json_schema", std::move(schema)}, {"max_whitespace_cnt", kMostSpace}};
    if (!format.contains("style") || format["style"] == "json") return made;
    if (format["style"] != "qwen_xml") {
      return unsupported(fmt::format("the style {}", format["style"].dump()), "json or qwen_xml");
    }
    made["style"] = "qwen_xml";
    return made;
  }

  static Result<Json> any_json(const Json& format) {
    LOCKSTEP_TRY_VOID(allow(format, {"style"}));
    return json_of(format, Json{{"type", "object"}});
  }

  static Result<Json> schema(const Json& format) {
    LOCKSTEP_TRY_VOID(allow(format, {"json_schema", "style"}));
    if (!format.contains("json_schema")) return invalid("json_schema without a schema", "the key json_schema");
    LOCKSTEP_TRY_VOID(SchemaCheck().check(format["json_schema"], 0));
    return json_of(format, format["json_schema"]);
  }

  Result<Json> repeat(const Json& format, int depth) {
    LOCKSTEP_TRY(Json made, allow(format, {"content", "min", "max"}));
    for (const char* key : {"min", "max"}) {
      const int64_t least = std::string_view(key) == "max" ? -1 : 0;  // −1: no limit
      const bool is_count = format.contains(key) && format[key].is_number_integer();
      if (!is_count || format[key].get<int64_t>() < least || format[key].get<int64_t>() > kMostRepeats) {
        return invalid(fmt::format("repeat without a count in {}", key), fmt::format("{} to {}", least, kMostRepeats));
      }
    }
    if (!format.contains("content")) return invalid("repeat without content", "the key content");
    LOCKSTEP_TRY(made["content"], translate(format["content"], depth + 1));
    return made;
  }

  static Result<std::string> text_of(const Json& format, const std::string& key) {
    if (format.contains(key) && format[key].is_string()) return format[key].get<std::string>();
    return invalid(fmt::format("{} without a text in {}", format["type"].dump(), key), "a text");
  }

  /// The format itself, if it has no key but these.
  static Result<Json> allow(const Json& format, const std::vector<std::string>& keys) {
    for (const auto& [key, value] : format.items()) {
      if (key == "type" || std::ranges::find(keys, key) != keys.end()) continue;
      return unsupported(fmt::format("the key {} of {}", key, format["type"].dump()), "keys that are served");
    }
    return format;
  }

  Result<Json> tag(const Json& format, int depth) {
    LOCKSTEP_TRY(Json made, allow(format, {"begin", "content", "end"}));
    for (const std::string key : {"begin", "end"}) {
      LOCKSTEP_TRY(const std::string text, text_of(format, key));
      literals_.push_back(text);
    }
    if (!format.contains("content")) return invalid("a tag without content", "the key content");
    LOCKSTEP_TRY(made["content"], translate(format["content"], depth + 1));
    return made;
  }

  Result<Json> parts(const Json& format, const std::string& key, std::vector<std::string> others, int depth) {
    others.push_back(key);
    LOCKSTEP_TRY(Json made, allow(format, others));
    if (!format.contains(key) || !format[key].is_array() || format[key].empty()) {
      return invalid(fmt::format("{} without {}", format["type"].dump(), key), "at least one");
    }
    made[key] = Json::array();
    for (const Json& one : format[key]) {
      LOCKSTEP_TRY(Json part, translate(one, depth + 1));
      if (key == "tags" && part["type"] != "tag") return invalid("another part among tags", "tags");
      made[key].push_back(std::move(part));
    }
    return made;
  }

  std::vector<std::string> literals_;
};

/// Whether the rest of an expression begins with a group that xgrammar passes over.
bool looks_around(std::string_view rest) {
  return std::ranges::any_of(std::array{"(?=", "(?!", "(?<=", "(?<!"},
                             [&](const char* group) { return rest.starts_with(group); });
}

}  // namespace

Result<void> check_regex(std::string_view pattern) {
  bool in_class = false;
  int depth = 0;
  int64_t repeats = 1;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      const char next = i + 1 < pattern.size() ? pattern[i + 1] : 'z';
      const bool is_letter = std::isalnum(static_cast<unsigned char>(next)) != 0;
      if (is_letter && std::string_view("dDwWsStnrfvxuc").find(next) == std::string_view::npos) {
        return unsupported(fmt::format("\\{} in an expression", next), "classes and characters");
      }
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if ((c == '^' && i > 0) || (c == '$' && i + 1 < pattern.size())) {
      return unsupported(fmt::format("{} inside an expression", c), "anchors at its ends only");
    } else if (looks_around(pattern.substr(i))) {
      return unsupported("a look at what is before or behind", "groups that take what they match");
    } else if (c == '(' || c == ')') {
      depth += c == '(' ? 1 : -1;
      if (depth > kMostDepth) return invalid(fmt::format("groups deeper than {}", kMostDepth), "fewer");
    } else if (c == '{') {
      int64_t most = 1, number = 0;
      for (++i; i < pattern.size() && pattern[i] != '}'; ++i) {
        number = pattern[i] == ',' ? 0 : number * 10 + (pattern[i] - '0');
        if (number < 0 || number > kMostRepeats) return invalid("a repetition", fmt::format("0 to {}", kMostRepeats));
        most = std::max(most, number);
      }
      repeats *= most;
      if (repeats > kMostRepeats * 16) return invalid("repetitions of repetitions", "fewer");
    }
  }
  return ok();
}

Result<CheckedFormat> check_format(std::string_view json) {
  if (json.size() > kMostText) {
    return invalid(fmt::format("{} bytes", json.size()), fmt::format("at most {}", kMostText));
  }
  int depth = 0, deepest = 0;  // before the parser's recursion; brackets in texts only make the check stricter
  for (const char c : json) {
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if (c == '}' || c == ']') --depth;
  }
  if (deepest > 512) return invalid("text that is nested too deeply", "at most 512 levels");
  const Json format = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (format.is_discarded()) return invalid("text that is not JSON", "an object with a type");
  Translation translation;
  LOCKSTEP_TRY(const Json translated, translation.translate(format, 0));
  return CheckedFormat{Json{{"type", "structural_tag"}, {"format", translated}}.dump(), translation.literals()};
}

}  // namespace lockstep::constraint
