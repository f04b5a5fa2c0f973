// Ahead-of-time compilation of all lowered steps of a model.
//
//   graphs of all ranks ──► lowered steps ──► cache, or compiler ──► result of each
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/neuron/compiler/compiler.h"
#include "runtime/device/ahead_compiler.h"

namespace lockstep::neuron {

/// The parts of a compilation.
struct AheadParts {
  std::vector<LoweredStep> steps;
  Compiler compiler;
  std::unique_ptr<device::ArtifactCache> cache;
  std::string build;                  // recorded with exported artifacts
  std::vector<std::string> warnings;  // for the user; compilation continues
};

std::unique_ptr<device::AheadCompilation> make_compilation(AheadParts parts);

/// Opens the compilation described by the option values; implements `AheadCompiler::open`.
Result<std::unique_ptr<device::AheadCompilation>> open_compilation(std::span<const device::StepGraph> steps,
                                                                   const device::AheadSite& site,
                                                                   const device::OptionValues& values);

}  // namespace lockstep::neuron
