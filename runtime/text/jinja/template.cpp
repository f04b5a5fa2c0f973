#include "runtime/text/jinja/template.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/lexer.h"
#include "runtime/text/jinja/parser.h"

namespace lockstep::jinja {
namespace {

constexpr int kMaxJsonDepth = 90;

Result<Value> from_json(const nlohmann::ordered_json& json, std::string_view what, int depth) {
  if (depth > kMaxJsonDepth) {
    return Error{ErrorKind::kInvalidArgument, fmt::format("[runtime/text] cannot read {}: found values nested deeper "
                                                          "than {}; make it flatter",
                                                          what, kMaxJsonDepth)};
  }
  if (json.is_string()) return Value(json.get<std::string>());
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return Value(json.get<double>());
  }
  if (json.is_number()) return Value(json.get<int64_t>());
  if (json.is_array()) {
    List list;
    for (const auto& item : json) {
      LOCKSTEP_TRY(Value value, from_json(item, what, depth + 1));
      list.items.push_back(std::move(value));
    }
    return Value(std::move(list));
  }
  if (json.is_object()) {
    Dict dict;
    for (const auto& [key, item] : json.items()) {
      LOCKSTEP_TRY(Value value, from_json(item, what, depth + 1));
      dict.items.emplace_back(Value(key), std::move(value));
    }
    return Value(std::move(dict));
  }
  return Value();
}

}  // namespace

Result<Template> Template::parse(std::string_view source) {
  LOCKSTEP_TRY(Body body, jinja::parse(source));
  return Template(std::move(body));
}

Result<std::string> Template::render(Dict variables, const std::optional<std::tm>& now) const {
  Interpreter interpreter(std::move(variables), now);
  try {
    return interpreter.run(body_);
  } catch (const RenderFailure& failure) {
    return template_error(ErrorKind::kInvalidArgument, interpreter.line(), failure.what());
  }
}

Result<Value> parse_json(std::string_view json, std::string_view what) {
  const auto document = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/text] cannot read {}: found text that is not JSON", what)};
  }
  return from_json(document, what, 0);
}

}  // namespace lockstep::jinja
