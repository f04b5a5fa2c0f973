// Converts libtorch's exceptions to `Error`s. Included by sources of this folder only.
#pragma once

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::aten {

inline Error aten_error(ErrorKind kind, std::string_view operation, std::string_view what) {
  return {kind, fmt::format("[runtime/backends/aten] {} failed: {}", operation, what)};
}

/// Calls `body` without autograd and converts every exception of libtorch to an `Error`.
template <typename Body>
Result<void> guarded(std::string_view operation, Body&& body) {
  try {
    const c10::InferenceMode inference;
    body();
    return ok();
  } catch (const c10::OutOfMemoryError& error) {
    return aten_error(ErrorKind::kResourceExhausted, operation, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return aten_error(ErrorKind::kInternal, operation, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return aten_error(ErrorKind::kResourceExhausted, operation, "out of host memory");
  } catch (const std::exception& error) {
    return aten_error(ErrorKind::kInternal, operation, error.what());
  }
}

}  // namespace lockstep::aten
