// What the module and its loader agree on. C++ objects cross this border, so both sides must come from one build: the
// loader compares `build_id` before it calls anything.
#pragma once

#include <string>

#include "runtime/backends/reference/reference.h"

namespace lockstep::reference {

/// The name of the one symbol that the module exports, of type `ModuleEntry`.
inline constexpr const char* kModuleEntryName = "lockstep_backend_reference_module";

/// What the module offers.
struct Module {
  const char* build_id = nullptr;  // first, so that it can be read whatever else has changed
  Result<std::unique_ptr<device::Backend>> (*make)(const Options& options) = nullptr;
};

using ModuleEntry = const Module* (*)();

/// Version, compiler and the sizes of the types that cross the border.
inline std::string build_id() {
  return fmt::format("lockstep {} module 1, compiler {}, types {} {} {} {} {}", LOCKSTEP_VERSION, __VERSION__,
                     sizeof(Options), sizeof(Error), sizeof(graph::Graph), sizeof(graph::Node), sizeof(graph::Value));
}

}  // namespace lockstep::reference
