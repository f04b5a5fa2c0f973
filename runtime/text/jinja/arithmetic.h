// Python's arithmetic on values, and its numbers in texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/text/jinja/budget.h"
#include "runtime/text/jinja/value.h"

namespace lockstep::jinja {

/// "+", "-", "*", "/", "//", "%", "**" and "~". Throws `RenderFailure` on unsuitable operands and on integers beyond 64
/// bits.
Value arithmetic(std::string_view op, const Value& left, const Value& right, Budget& budget);

/// `value[begin:end:step]`; `none` bounds are open.
Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step, Budget& budget);

/// int(text, base) of Python, with the digits of ASCII; empty where Python fails. Throws `RenderFailure` beyond 64
/// bits.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base);

/// float(text) of Python, with the digits of ASCII; empty where Python fails.
std::optional<double> parse_real(std::string_view text);

/// round(value, digits) of a number: an integer stays one.
Value rounded(const Value& value, int64_t digits);

}  // namespace lockstep::jinja
