// The library's errors as Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <utility>

#include "lockstep/engine.h"

namespace lockstep::python {

namespace nb = nanobind;

/// Raises `lockstep.Error`, or `lockstep.InputError` where the caller's input is at fault. With the GIL.
[[noreturn]] void raise(const Error& error);

/// The error of a call of a model inside one of its own callbacks.
Error inside_callback(std::string_view what);

inline void value_of(const Result<void>& result) {
  if (!result.has_value()) raise(result.error());
}
template <typename T>
T value_of(Result<T> result) {
  if (!result.has_value()) raise(result.error());
  return std::move(result).assume_value();
}

/// Calls `work` without the GIL: other Python threads run, and the engine's threads may call Python.
template <typename Work>
auto without_gil(Work&& work) {
  const nb::gil_scoped_release released;
  return work();
}

}  // namespace lockstep::python
