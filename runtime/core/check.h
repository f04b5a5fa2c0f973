// Checks of Lockstep's own invariants.
//
// A failed `LOCKSTEP_CHECK` throws `CheckFailure`; the executor, actor and command boundaries turn it into an `Error`
// of kind `internal`. External failures (bad files, lost peers, full memory) are a `Result` instead
// (runtime/core/result.h).
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

/// A bug in Lockstep: the failed condition, its place and the operands.
class CheckFailure final : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace detail {

[[noreturn]] void fail_check(std::string_view condition, std::string_view file, int line, std::string_view operands);

template <typename... Values>
std::string format_operands(std::string_view names, const Values&... values) {
  if constexpr (sizeof...(Values) == 0) {
    return {};
  } else {
    std::string text = fmt::format("; ({}) =", names);
    ((text += fmt::format(" {}", values)), ...);
    return text;
  }
}

}  // namespace detail
}  // namespace lockstep

/// `LOCKSTEP_CHECK(row < rows, row, rows)`: throws with the values of `row` and `rows` when the condition is false.
#define LOCKSTEP_CHECK(condition, ...)                                                                              \
  do {                                                                                                              \
    if (!(condition)) [[unlikely]] {                                                                                \
      ::lockstep::detail::fail_check(#condition, __FILE__, __LINE__,                                                \
                                     ::lockstep::detail::format_operands(#__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)); \
    }                                                                                                               \
  } while (false)
