// neuronx-cc as a child process: its command line, its version, one compilation.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/neuron/compiler/compiler.h"

namespace lockstep::neuron {

/// The words of one compilation, the program first. Pure.
std::vector<std::string> compile_words(const CompilerOptions& options, Phase phase, const std::filesystem::path& module,
                                       const std::filesystem::path& artifact);

/// What the program says about its version ("2.21.18209.0"), or empty where there is no such program. Fails with
/// `kFailedPrecondition` for a program that says nothing. @blocking
Result<std::string> ask_version(const CompilerOptions& options);

/// Compiles the module `bytes` of `step` into `workspace.artifact`; all that the program says goes into
/// `workspace.log`. Fails as `explain` (failure.h) says. @blocking
Result<void> run_compiler(const CompilerOptions& options, const std::string& step, std::span<const std::byte> bytes,
                          const device::ArtifactWorkspace& workspace);

}  // namespace lockstep::neuron
