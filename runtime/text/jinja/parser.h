// A recursive descent parser from tokens to statements and expressions, with jinja2's operator precedence.
#pragma once

#include <string_view>

#include "runtime/core/result.h"
#include "runtime/text/jinja/ast.h"

namespace lockstep::jinja {

/// Fails with `kInvalidArgument` on a malformed template and with `kUnsupported` on statements not used by chat
/// templates (include, extends, …); the message names the line.
Result<Body> parse(std::string_view source);

}  // namespace lockstep::jinja
