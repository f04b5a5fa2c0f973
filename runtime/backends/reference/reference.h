// The reference backend, the oracle of all other backends. One readable kernel per node; every result is computed in
// f32 and rounded once, as defined in runtime/graph/OPERATIONS.md.
//
//   make_backend ──dlopen──► liblockstep_backend_reference.so ──► libtorch_cpu
//
// Loading libtorch costs a quarter of a second, so the backend is a module that is loaded when it is chosen; a program
// links only this header's library.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/core/result.h"
#include "runtime/device/backend.h"
#include "runtime/device/backend_driver.h"

namespace lockstep::reference {

/// The driver of this backend.
const device::BackendDriver& driver();

struct Options {
  int threads = 1;                              // of this process's matrix products; at least 1
  std::filesystem::path module_directory = {};  // folder of the module; empty: "../lib" relative to the program

  /// Fails with `kInvalidArgument`.
  Result<void> validate() const;
};

/// The file name of the module.
std::filesystem::path module_file_name();

/// Loads the module, which stays loaded for the life of the process, and makes a backend. Thread-safe. Fails with
/// `kUnavailable`, naming the path, when the module cannot be loaded or belongs to another build.
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

}  // namespace lockstep::reference
