// The outermost boundary of a thread or a program: exceptions become errors.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runtime/core/result.h"

namespace lockstep {

/// An `Error` thrown through code that returns no `Result`; `guard` turns it back into one.
class ThrownError : public std::runtime_error {
 public:
  explicit ThrownError(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// Calls `work`, which returns a `Result`. Turns a failed check or a standard exception into an error of kind
/// `internal`.
template <typename Work>
auto guarded(std::string_view component, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kResourceExhausted,
                 fmt::format("[{}] out of memory; use more ranks, or lower --max-seq-len", component)};
  } catch (const ThrownError& thrown) {
    return thrown.error();
  } catch (const std::exception& failure) {
    return Error{ErrorKind::kInternal,
                 fmt::format("[{}] a bug in lockstep: {}; please report it", component, failure.what())};
  }
}

}  // namespace lockstep
