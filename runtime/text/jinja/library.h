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

/// Throws `RenderFailure` for a name that transformers keeps out of namespaces.
void check_member(std::string_view name);

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
/// `text` in lines, at all of Python's line ends.
std::vector<Value> split_lines(std::string_view text, bool keeps_ends);

/// The cases of Python's str, with final sigmas and upper cases of several characters.
std::string lower_case(std::string_view text);
std::string upper_case(std::string_view text);
std::string capitalize(std::string_view text);
std::string title_case(std::string_view text);
/// jinja2's filter `title`: a word starts after white space and each of "-({[<".
std::string title_words(std::string_view text);
/// str.isupper(), or str.islower().
bool is_in_case(std::string_view text, bool is_upper);

/// str.isspace(), isprintable(), isdigit() and isalpha() of one character; an unassigned one counts as printable.
bool is_space(char32_t c);
bool is_printable(char32_t c);
bool is_digit(char32_t c);
bool is_alpha(char32_t c);

std::string escape_html(std::string_view text);
int64_t count_words(std::string_view text);

/// Throws `RenderFailure` for arguments beyond `names`, which has the parameters with blanks between them; "*" takes
/// any.
void check_arguments(std::string_view of, std::string_view names, const Arguments& arguments);
/// Arguments by Python type; throw `RenderFailure` on another type.
const std::string& string_in(const Value& value);
int64_t integer_in(const Value& value);
const std::string& string_argument(const Arguments& arguments, size_t index, std::string_view name);
int64_t integer_argument(const Arguments& arguments, size_t index, std::string_view name, int64_t fallback);
bool flag_argument(const Arguments& arguments, size_t index, std::string_view name, bool fallback);

}  // namespace lockstep::jinja
