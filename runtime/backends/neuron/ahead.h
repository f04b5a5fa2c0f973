// Compilation ahead of time: the lowered steps of a model, and every one of them compiled.
//
//   graphs of all ranks ──► lowered steps ──► cache, or compiler ──► what became of each
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/neuron/compiler/compiler.h"
#include "runtime/device/ahead_compiler.h"

namespace lockstep::neuron {

/// What a compilation is made of.
struct AheadParts {
  std::vector<LoweredStep> steps;
  Compiler compiler;
  std::unique_ptr<device::ArtifactCache> cache;
  std::string build;                  // recorded with what is exported
  std::vector<std::string> warnings;  // for the user; steps are compiled all the same
};

std::unique_ptr<device::AheadCompilation> make_compilation(AheadParts parts);

/// The one of the option values: what `AheadCompiler::open` does.
Result<std::unique_ptr<device::AheadCompilation>> open_compilation(std::span<const device::StepGraph> steps,
                                                                   const device::AheadSite& site,
                                                                   const device::OptionValues& values);

}  // namespace lockstep::neuron
