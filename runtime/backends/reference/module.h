// The interface between the module and its loader. C++ objects cross it, so both sides must come from one build: the
// loader compares `build_id` before any other call.
#pragma once

#include <string>

#include "runtime/backends/reference/reference.h"

namespace lockstep::reference {

/// The name of the module's only exported symbol, of type `ModuleEntry`.
inline constexpr const char* kModuleEntryName = "lockstep_backend_reference_module";

/// The module's functions.
struct Module {
  const char* build_id = nullptr;  // first, so that other versions can read it, too
  Result<std::unique_ptr<device::Backend>> (*make)(const Options& options) = nullptr;
};

using ModuleEntry = const Module* (*)();

/// Version, compiler and the sizes of the exchanged types.
inline std::string build_id() {
  return fmt::format("lockstep {} module 1, compiler {}, types {} {} {} {} {}", LOCKSTEP_VERSION, __VERSION__,
                     sizeof(Options), sizeof(Error), sizeof(graph::Graph), sizeof(graph::Node), sizeof(graph::Value));
}

}  // namespace lockstep::reference
