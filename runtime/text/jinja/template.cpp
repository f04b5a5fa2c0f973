#include "runtime/text/jinja/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/lexer.h"
#include "runtime/text/jinja/parser.h"

namespace lockstep::jinja {
namespace {

constexpr int kMaxJsonDepth = 90;

/// Whether the JSON text has an integer beyond 64 bits, which its parser turns into a floating-point number.
bool has_large_integer(std::string_view json) {
  for (size_t at = 0; at < json.size(); ++at) {
    if (json[at] == '"') {
      while (++at < json.size() && json[at] != '"') at += json[at] == '\\' ? 1 : 0;
    } else if (json[at] == '-' || (json[at] >= '0' && json[at] <= '9')) {
      const size_t end = std::min(json.find_first_not_of("0123456789+-.eE", at), json.size());
      const auto number = json.substr(at, end - at);
      int64_t integer = 0;
      const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), integer);
      if (error == std::errc::result_out_of_range && number.find_first_of(".eE") == std::string_view::npos) return true;
      at = end - 1;
    }
  }
  return false;
}

Result<Value> from_json(const nlohmann::ordered_json& json, std::string_view what, int depth) {
  if (depth > kMaxJsonDepth) {
    return Error{ErrorKind::kInvalidArgument, fmt::format("[runtime/text] cannot read {}: found values nested deeper "
                                                          "than {}; make it flatter",
                                                          what, kMaxJsonDepth)};
  }
  if (json.is_string()) return Value(json.get<std::string>());
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_float()) return Value(json.get<double>());
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
  if (has_large_integer(json)) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[runtime/text] cannot read {}: found an integer beyond 64 bits, expected -2^63 to 2^63 - 1; "
                    "write it as text",
                    what)};
  }
  return from_json(document, what, 0);
}

}  // namespace lockstep::jinja
