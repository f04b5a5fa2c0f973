// Python's arithmetic on values.
#pragma once

#include <string_view>

#include "runtime/text/jinja/budget.h"
#include "runtime/text/jinja/value.h"

namespace lockstep::jinja {

/// "+", "-", "*", "/", "//", "%", "**" and "~". Throws `RenderFailure` on unsuitable operands and on integers beyond 64
/// bits.
Value arithmetic(std::string_view op, const Value& left, const Value& right, Budget& budget);

/// `value[begin:end:step]`; `none` bounds are open.
Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step, Budget& budget);

}  // namespace lockstep::jinja
