// The kinds of errors from what other programs give back of them: their names, numbers and exit codes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep {

/// All kinds, in the order of their numbers.
inline constexpr auto kErrorKinds = [] {
  std::array<ErrorKind, static_cast<size_t>(ErrorKind::kCancelled) + 1> kinds{};
  for (size_t number = 0; number < kinds.size(); ++number) kinds[number] = static_cast<ErrorKind>(number);
  return kinds;
}();

namespace detail {

template <typename Matches>
std::optional<ErrorKind> first_error_kind(Matches matches) {
  for (const ErrorKind kind : kErrorKinds) {
    if (matches(kind)) return kind;
  }
  return std::nullopt;
}

}  // namespace detail

/// The kind with this name; none: this version has no such kind.
inline std::optional<ErrorKind> error_kind_named(std::string_view name) {
  return detail::first_error_kind([&](ErrorKind kind) { return to_string(kind) == name; });
}

/// The kind with this number; none: this version has no such kind.
inline std::optional<ErrorKind> error_kind_numbered(int number) {
  return detail::first_error_kind([&](ErrorKind kind) { return static_cast<int>(kind) == number; });
}

/// The first kind with this exit code; none: no program of ours ends with it.
inline std::optional<ErrorKind> error_kind_of_exit(int code) {
  return detail::first_error_kind([&](ErrorKind kind) { return exit_code(kind) == code; });
}

}  // namespace lockstep
