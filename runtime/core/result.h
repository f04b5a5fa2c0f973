// Errors as values: `Result<T>` holds a value or an `Error`.
//
// The kind of an error says what the caller should do; the message says what was found and what was expected:
//
//   [component] rank 3: what failed: found …, expected …; what to do
//
// `LOCKSTEP_TRY(auto x, f())` unwraps or returns the error; `LOCKSTEP_TRY_VOID(f())` does so for `Result<void>`.
#pragma once

#include <boost/outcome/basic_result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep {

/// Kinds of failure, each with what the caller should do.
enum class ErrorKind {
  kInternal,            // a bug in Lockstep: report it
  kInvalidArgument,     // change the request or the input file
  kNotFound,            // name an existing file, model or option
  kUnsupported,         // ask for a supported value; the message lists them
  kFailedPrecondition,  // change the launch or the state of the machine
  kUnavailable,         // the machine or this build lacks something
  kPeerLost,            // another rank died: start again
  kDeadlineExceeded,    // a wait timed out
  kResourceExhausted,   // use less, or raise the budget
  kCancelled,           // the caller or the user stopped it
};

/// The kind as logs show it: "invalid_argument".
std::string_view to_string(ErrorKind kind);

/// The documented exit code of a process that fails with `kind`.
int exit_code(ErrorKind kind);

/// A failure. A regular value: tests compare it and ranks send it.
struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  std::optional<int> origin_rank = std::nullopt;  // the rank that failed, if known

  friend bool operator==(const Error&, const Error&) = default;
};

namespace detail {

/// Makes `.value()` of a failed result and `.error()` of a good one a failed check instead of undefined behaviour.
struct CheckedAccess : BOOST_OUTCOME_V2_NAMESPACE::policy::base {
  template <typename Impl>
  static constexpr void wide_value_check(Impl&& self) {
    if (!base::_has_value(self)) [[unlikely]] {
      throw CheckFailure("value() of a failed result: " + base::_error(self).message);
    }
  }
  template <typename Impl>
  static constexpr void wide_error_check(Impl&& self) {
    if (!base::_has_error(self)) [[unlikely]]
      throw CheckFailure("error() of a result that holds a value");
  }
};

}  // namespace detail

/// A `T`, or the `Error` that prevented it.
template <typename T>
using Result = BOOST_OUTCOME_V2_NAMESPACE::basic_result<T, Error, detail::CheckedAccess>;

/// A successful `Result<void>`.
inline auto ok() { return BOOST_OUTCOME_V2_NAMESPACE::success(); }

}  // namespace lockstep

#define LOCKSTEP_DETAIL_JOIN2(a, b) a##b
#define LOCKSTEP_DETAIL_JOIN(a, b) LOCKSTEP_DETAIL_JOIN2(a, b)
#define LOCKSTEP_DETAIL_TRY(result, declaration, ...)               \
  auto&& result = (__VA_ARGS__);                                    \
  if (!result.has_value()) return std::move(result).assume_error(); \
  declaration = std::move(result).assume_value()

/// `LOCKSTEP_TRY(auto x, f())`: sets x to the value of f(), or returns its error from the enclosing function.
/// (BOOST_OUTCOME_TRY of the required Boost version cannot name the variable's type.)
#define LOCKSTEP_TRY(declaration, ...) \
  LOCKSTEP_DETAIL_TRY(LOCKSTEP_DETAIL_JOIN(lockstep_try_, __COUNTER__), declaration, __VA_ARGS__)

/// `LOCKSTEP_TRY_VOID(f())`: if f() fails, returns its error from the enclosing function.
#define LOCKSTEP_TRY_VOID(...)                                                \
  do {                                                                        \
    if (auto&& lockstep_tried = (__VA_ARGS__); !lockstep_tried.has_value()) { \
      return std::move(lockstep_tried).assume_error();                        \
    }                                                                         \
  } while (false)
