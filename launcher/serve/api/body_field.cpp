#include "launcher/serve/api/body_field.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep::serve {
namespace {

/// Stops the parser at a limit. Thrown and caught in this file: the parser's callback has no other way to end it.
struct LimitReached {
  const char* what;
};

/// Counts while the parser runs; its own recursion and the quadratic cost of ordered objects stay bounded.
class LimitCounter {
 public:
  explicit LimitCounter(const BodyLimits& limits) : limits_(limits) {}

  bool operator()(int depth, Json::parse_event_t event, Json& /*parsed*/) {
    using Event = Json::parse_event_t;
    if (static_cast<size_t>(depth) > limits_.depth) throw LimitReached{"lists and objects nested too deep"};
    if (++values_ > limits_.values) throw LimitReached{"too many values"};
    if (event == Event::object_start || event == Event::array_start) names_.push_back(0);
    if (event == Event::object_end || event == Event::array_end) names_.pop_back();
    if (event == Event::key && ++names_.back() > limits_.names) throw LimitReached{"too many names in one object"};
    return true;
  }

 private:
  const BodyLimits& limits_;
  std::vector<size_t> names_;
  size_t values_ = 0;
};

ApiError unreadable(std::string_view found) {
  return invalid_field("", fmt::format("the body: found {}, expected a JSON object", found));
}

}  // namespace

ApiResult<std::shared_ptr<const Json>> parse_body(std::string_view text, const BodyLimits& limits) {
  LimitCounter counter(limits);
  try {
    Json parsed = Json::parse(
        text, [&](int depth, Json::parse_event_t event, Json& value) { return counter(depth, event, value); });
    if (!parsed.is_object()) return unreadable(form_of(parsed));
    return std::make_shared<const Json>(std::move(parsed));
  } catch (const LimitReached& reached) {
    return unreadable(reached.what);
  } catch (const Json::parse_error& error) {
    return unreadable(fmt::format("text that is not JSON at byte {}", error.byte));
  } catch (const Json::exception&) {  // a number out of range
    return unreadable("a number that is out of range");
  }
}

std::string_view form_of(const Json& value) {
  if (value.is_string()) return "a text";
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return "a number";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return "null";
}

std::optional<BodyField> BodyField::find(std::string_view name) const {
  if (!value_->is_object()) return std::nullopt;
  const auto found = value_->find(std::string(name));
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return BodyField(*found, path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name));
}

ApiResult<BodyField> BodyField::at(std::string_view name) const {
  if (auto found = find(name)) return *std::move(found);
  const std::string path = path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  return invalid_field(path, fmt::format("{}: found nothing, expected a value; add the field", path));
}

ApiError BodyField::expected(std::string_view what) const {
  return invalid(fmt::format("found {}, expected {}", form_of(*value_), what));
}

ApiError BodyField::invalid(std::string_view message) const {
  return invalid_field(path_, fmt::format("{}: {}", path_.empty() ? "the body" : path_, message));
}

std::string BodyField::dump() const { return to_line(*value_); }

ApiResult<std::string> BodyField::text() const {
  if (!value_->is_string()) return expected("a text");
  return value_->get<std::string>();
}

ApiResult<double> BodyField::number() const {
  if (!value_->is_number()) return expected("a number");
  const double number = value_->get<double>();
  if (!std::isfinite(number)) return invalid("found an infinite number, expected a finite one");
  return number;
}

ApiResult<int64_t> BodyField::whole() const {
  LOCKSTEP_TRY(const double number, this->number());
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return invalid("found a number above 2^63 - 1, expected a smaller one");
  }
  if (value_->is_number_integer()) return value_->get<int64_t>();
  if (number != std::floor(number) || std::abs(number) > 9007199254740992.0) {
    return invalid(fmt::format("found {}, expected a whole number", value_->dump()));
  }
  return static_cast<int64_t>(number);
}

ApiResult<bool> BodyField::flag() const {
  if (!value_->is_boolean()) return expected("true or false");
  return value_->get<bool>();
}

ApiResult<std::vector<BodyField>> BodyField::elements() const {
  if (!value_->is_array()) return expected("a list");
  std::vector<BodyField> fields;
  fields.reserve(value_->size());
  for (const Json& element : *value_) {
    fields.emplace_back(element, fmt::format("{}[{}]", path_, fields.size()));
  }
  return fields;
}

ApiResult<BodyField> BodyField::object() const {
  if (!value_->is_object()) return expected("an object");
  return *this;
}

ApiResult<std::vector<std::string>> BodyField::texts() const {
  if (value_->is_string()) return std::vector{value_->get<std::string>()};
  if (!value_->is_array()) return expected("a text or a list of texts");
  std::vector<std::string> texts;
  LOCKSTEP_TRY(const auto fields, elements());
  for (const BodyField& field : fields) {
    LOCKSTEP_TRY(texts.emplace_back(), field.text());
  }
  return texts;
}

ApiResult<std::vector<int32_t>> BodyField::ids(int64_t vocabulary) const {
  if (!value_->is_array()) return expected("a list of token ids");
  std::vector<int32_t> ids;
  ids.reserve(value_->size());
  for (const Json& element : *value_) {
    const BodyField field(element, fmt::format("{}[{}]", path_, ids.size()));
    LOCKSTEP_TRY(const int64_t id, field.whole());
    if (id < 0 || id >= vocabulary) {
      return field.invalid(fmt::format("found {}, expected a token id from 0 to {}", id, vocabulary - 1));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

ApiResult<std::string> BodyField::text_or(std::string_view name, std::string otherwise) const {
  const auto field = find(name);
  if (!field) return otherwise;
  return field->text();
}

ApiResult<bool> BodyField::flag_or(std::string_view name, bool otherwise) const {
  const auto field = find(name);
  if (!field) return otherwise;
  return field->flag();
}

ApiResult<std::optional<int64_t>> BodyField::whole_within(std::string_view name, int64_t least, int64_t most) const {
  const auto field = find(name);
  if (!field) return std::optional<int64_t>();
  LOCKSTEP_TRY(const int64_t value, field->whole());
  if (value < least || value > most) {
    return field->invalid(fmt::format("found {}, expected {} to {}", value, least, most));
  }
  return std::optional(value);
}

std::string to_line(const Json& value) {
  std::string line = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  // These two separate lines in JavaScript and Python; in JSON text they only occur inside of texts.
  constexpr std::string_view kSeparator = "\xE2\x80";
  for (size_t at = line.find(kSeparator); at != std::string::npos; at = line.find(kSeparator, at + 3)) {
    const auto last = static_cast<unsigned char>(line[at + 2]);
    if (last == 0xA8 || last == 0xA9) line.replace(at, 3, last == 0xA8 ? "\\u2028" : "\\u2029");
  }
  return line;
}

std::string event_of(const Json& value) { return "data: " + to_line(value) + "\n\n"; }

}  // namespace lockstep::serve
