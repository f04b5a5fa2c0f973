// Regular expressions over the names of modules, as configs of quantised checkpoints have them. Private to this folder.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// A compiled expression that matches as Python's `re.match`: from the start of a name, not necessarily to its end.
/// Thread-safe.
class ModulePattern {
 public:
  /// Fails with `kUnsupported` for an expression that PCRE2 rejects, or a very long one; `origin` names it in messages.
  static Result<ModulePattern> compile(std::string_view expression, std::string_view origin);
  ModulePattern(ModulePattern&&) noexcept;
  ModulePattern& operator=(ModulePattern&&) noexcept;
  ~ModulePattern();

  /// Fails with `kUnsupported` when the expression backtracks too much.
  Result<bool> matches(std::string_view name) const;

 private:
  struct Code;
  ModulePattern(std::unique_ptr<Code> code, std::string expression, std::string origin);
  std::unique_ptr<Code> code_;
  std::string expression_, origin_;
};

}  // namespace lockstep::checkpoint
