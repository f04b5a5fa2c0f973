// Templates in the subset of Jinja that chat templates use, with the settings of transformers. See README.md for what
// is in it.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/core/result.h"
#include "runtime/text/jinja/ast.h"

namespace lockstep::jinja {

/// Parsed once, rendered often. Immutable; thread-safe.
class Template {
 public:
  /// Fails with `kInvalidArgument` or `kUnsupported`, naming the line.
  static Result<Template> parse(std::string_view source);

  /// `variables` have names as keys. `now` is what strftime_now formats; without it the function is not defined, and
  /// templates fall back to a date of their own. Fails with `kInvalidArgument`, naming the line; the time and memory
  /// that it takes are bounded.
  Result<std::string> render(Dict variables, const std::optional<std::tm>& now) const;

 private:
  explicit Template(Body body) : body_(std::move(body)) {}
  Body body_;
};

/// A JSON document as a value, objects in their order. Fails with `kInvalidArgument`; `what` names it in the message.
Result<Value> parse_json(std::string_view json, std::string_view what);

}  // namespace lockstep::jinja
