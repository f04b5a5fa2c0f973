// Tokens to statements and expressions, by recursive descent; the order of the operators is jinja2's.
#pragma once

#include <string_view>

#include "runtime/core/result.h"
#include "runtime/text/jinja/ast.h"

namespace lockstep::jinja {

/// Fails with `kInvalidArgument` on what is no template and with `kUnsupported` on statements that chat templates do
/// not use (include, extends, …); the message names the line.
Result<Body> parse(std::string_view source);

}  // namespace lockstep::jinja
