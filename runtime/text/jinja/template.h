// Templates in the Jinja subset of chat templates, with the settings of transformers. README.md lists the supported
// features.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/core/result.h"
#include "runtime/text/jinja/ast.h"

namespace lockstep::jinja {

/// Parsed once, rendered many times. Immutable; thread-safe.
class Template {
 public:
  /// Fails with `kInvalidArgument` or `kUnsupported`, naming the line.
  static Result<Template> parse(std::string_view source);

  /// `variables` have names as keys. `now` is the time for strftime_now; without it the function is undefined, and
  /// templates use their default date. Fails with `kInvalidArgument`, naming the line. Time and memory are bounded.
  Result<std::string> render(Dict variables, const std::optional<std::tm>& now) const;

 private:
  explicit Template(Body body) : body_(std::move(body)) {}
  Body body_;
};

/// A JSON document as a value, with object order preserved. Fails with `kInvalidArgument`; `what` names it in the
/// message.
Result<Value> parse_json(std::string_view json, std::string_view what);

}  // namespace lockstep::jinja
