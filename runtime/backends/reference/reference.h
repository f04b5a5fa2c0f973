// The reference backend: the oracle of every other backend. One kernel per node, written to be read; every result is
// computed in f32 and rounded once, as runtime/graph/OPERATIONS.md says.
//
//   make_backend ──dlopen──► liblockstep_backend_reference.so ──► libtorch_cpu
//
// libtorch costs a quarter of a second at load, so the backend is a module that is loaded when it is chosen; this
// header and its library are all that a program needs to link.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/core/result.h"
#include "runtime/device/backend.h"
#include "runtime/device/backend_driver.h"

namespace lockstep::reference {

/// How the program starts it.
const device::BackendDriver& driver();

struct Options {
  int threads = 1;                              // of this process's matrix products; at least 1
  std::filesystem::path module_directory = {};  // where the module lies; empty: "../lib" seen from the program

  /// Fails with `kInvalidArgument`.
  Result<void> validate() const;
};

/// The file name of the module.
std::filesystem::path module_file_name();

/// Loads the module (it stays loaded for the life of the process) and makes a backend. Thread-safe. Fails with
/// `kUnavailable`, naming the path, when the module cannot be loaded or belongs to another build.
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

}  // namespace lockstep::reference
