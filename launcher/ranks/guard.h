// The outermost boundary: a failed check (a bug of ours) or an exception of the standard library becomes an error.
#pragma once

#include <exception>
#include <new>

#include "launcher/process/fault.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Calls `work`, which returns a `Result<void>`.
template <typename Work>
Result<void> guarded(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kResourceExhausted, "[launcher] out of memory; use more ranks, or lower --max-seq-len"};
  } catch (const AskedFailure& failure) {
    return Error{ErrorKind::kInternal, fmt::format("[launcher] {}", failure.what())};
  } catch (const std::exception& error) {
    return Error{ErrorKind::kInternal, fmt::format("[launcher] a bug in lockstep: {}; please report it", error.what())};
  }
}

}  // namespace lockstep::launcher
