// Checks and translation of a constraint's JSON text. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::constraint {

/// A constraint that passed all checks.
struct CheckedFormat {
  std::string structural_tag;         // in xgrammar's form
  std::vector<std::string> literals;  // its constant strings, in which special tokens may occur
};

/// Fails with `kInvalidArgument` for text that is no constraint or too large, and with `kUnsupported` for a keyword
/// that would be used in part only, naming it.
Result<CheckedFormat> check_format(std::string_view json);

/// Rejects expressions whose parts would be ignored, and repetitions that are too large.
Result<void> check_regex(std::string_view pattern);

}  // namespace lockstep::constraint
