#include "runtime/text/json_field.h"

#include <fmt/format.h>

namespace lockstep::text {

std::optional<JsonField> JsonField::find(std::string_view key) const {
  if (!value_->is_object()) return std::nullopt;
  const auto member = value_->find(std::string(key));
  if (member == value_->end() || member->is_null()) return std::nullopt;
  return child(*member, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
}

Result<JsonField> JsonField::at(std::string_view key) const {
  if (!value_->is_object()) return wrong_type("an object");
  auto member = find(key);
  if (!member) return invalid(fmt::format("no \"{}\"", key), fmt::format("a value for \"{}\"", key));
  return *std::move(member);
}

Result<std::vector<JsonField>> JsonField::elements() const {
  if (!value_->is_array()) return wrong_type("a list");
  std::vector<JsonField> fields;
  fields.reserve(value_->size());
  for (const auto& element : *value_) fields.push_back(child(element, fmt::format("{}[{}]", path_, fields.size())));
  return fields;
}

Result<std::string> JsonField::string() const {
  if (!value_->is_string()) return wrong_type("a string");
  return value_->get<std::string>();
}

Result<bool> JsonField::boolean() const {
  if (!value_->is_boolean()) return wrong_type("true or false");
  return value_->get<bool>();
}

Result<double> JsonField::number() const {
  if (!value_->is_number()) return wrong_type("a number");
  return value_->get<double>();
}

Result<int64_t> JsonField::integer(int64_t low, int64_t high) const {
  const std::string expected = fmt::format("an integer from {} to {}", low, high);
  if (!value_->is_number_integer()) return wrong_type(expected);
  const bool too_large = value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (too_large || value_->get<int64_t>() < low || value_->get<int64_t>() > high) {
    return invalid(value_->dump(), expected);
  }
  return value_->get<int64_t>();
}

Result<bool> JsonField::boolean_or(std::string_view key, bool fallback) const {
  const auto member = find(key);
  return member ? member->boolean() : Result<bool>(fallback);
}

Result<std::string> JsonField::string_or(std::string_view key, std::string fallback) const {
  const auto member = find(key);
  return member ? member->string() : Result<std::string>(std::move(fallback));
}

Error JsonField::invalid(std::string_view found, std::string_view expected) const {
  return of_kind(ErrorKind::kInvalidArgument, found, expected, "the file is damaged: fetch it again");
}

Error JsonField::unsupported(std::string_view found, std::string_view known) const {
  return of_kind(ErrorKind::kUnsupported, found, fmt::format("one of {}", known),
                 "use a model whose tokenizer has only these");
}

JsonField JsonField::child(const nlohmann::json& value, std::string path) const {
  JsonField field(value, origin_);
  field.path_ = std::move(path);
  return field;
}

Error JsonField::of_kind(ErrorKind kind, std::string_view found, std::string_view expected,
                         std::string_view advice) const {
  return {kind, fmt::format("[runtime/text] cannot read {}{}: found {}, expected {}; {}", origin_,
                            path_.empty() ? "" : ": " + path_, found, expected, advice)};
}

Error JsonField::wrong_type(std::string_view expected) const {
  return invalid(value_->is_null() ? "nothing" : fmt::format("a value of type {}", value_->type_name()), expected);
}

}  // namespace lockstep::text
