// The built-ins of templates: filters, tests, methods of strings and dictionaries, functions.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/text/jinja/budget.h"
#include "runtime/text/jinja/value.h"

namespace lockstep::jinja {

/// `value | name(arguments)`. Throws `RenderFailure` on an unknown filter or unsuitable arguments.
Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget);

/// `value is name(arguments)`.
bool apply_test(std::string_view name, const Value& value, const Arguments& arguments);

/// `value.name` if it is a method of the value's type, else undefined. `budget` outlives the method.
Value method_of(const Value& value, std::string_view name, Budget& budget);

/// `value[key]`; undefined if it does not exist.
Value item_of(const Value& value, const Value& key);
/// `value.name`: a method if it exists, else an item.
Value attribute_of(const Value& value, std::string_view name, Budget& budget);

/// range, dict, namespace, raise_exception; strftime_now if `now` is set. Undefined for other names.
Value function_named(std::string_view name, const std::optional<std::tm>& now, Budget& budget);

/// JSON text equal to Python's `json.dumps(value, ensure_ascii=False)`.
std::string to_json(const Value& value, const Arguments& arguments, Budget& budget);

/// The pieces of `text` between `separator`; at most `most` cuts, unlimited when negative.
std::vector<Value> split_text(std::string_view text, std::string_view separator, int64_t most);
/// `text` without characters of `chars` (white space when null) at its ends.
enum class Ends { kLeft, kRight, kBoth };
std::string strip_text(std::string_view text, const std::string* chars, Ends ends);
/// Replaces `old` at most `most` times, unlimited when negative.
std::string replace_text(std::string_view text, std::string_view old, std::string_view by, int64_t most,
                         Budget& budget);
std::string capitalize(std::string_view text);
std::string title_case(std::string_view text);
std::string escape_html(std::string_view text);
int64_t count_words(std::string_view text);

/// Arguments by Python type; throw `RenderFailure` on another type.
const std::string& string_in(const Value& value);
int64_t integer_in(const Value& value);
const std::string& string_argument(const Arguments& arguments, size_t index, std::string_view name);
int64_t integer_argument(const Arguments& arguments, size_t index, std::string_view name, int64_t fallback);
bool flag_argument(const Arguments& arguments, size_t index, std::string_view name, bool fallback);

}  // namespace lockstep::jinja
