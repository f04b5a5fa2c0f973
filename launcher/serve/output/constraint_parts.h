// The parts that constraints on tool calls consist of (runtime/constraint), as JSON values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::serve {

using Json = nlohmann::ordered_json;  // the order of a schema's properties is the order of the arguments

inline Json const_text(std::string_view value) { return {{"type", "const_string"}, {"value", value}}; }
inline Json any_text() { return {{"type", "any_text"}}; }
inline Json regex(std::string_view pattern) { return {{"type", "regex"}, {"pattern", pattern}}; }
inline Json json_schema(Json schema) { return {{"type", "json_schema"}, {"json_schema", std::move(schema)}}; }
inline Json tag(std::string_view begin, Json content, std::string_view end) {
  return {{"type", "tag"}, {"begin", begin}, {"content", std::move(content)}, {"end", end}};
}
inline Json sequence(Json elements) { return {{"type", "sequence"}, {"elements", std::move(elements)}}; }
inline Json either(Json elements) { return {{"type", "or"}, {"elements", std::move(elements)}}; }
/// `most`: −1 is without a limit.
inline Json repeat(Json content, int64_t least, int64_t most) {
  return {{"type", "repeat"}, {"content", std::move(content)}, {"min", least}, {"max", most}};
}

}  // namespace lockstep::serve
