// neuronx-cc as a child process: command line, version, compilation.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/neuron/compiler/compiler.h"

namespace lockstep::neuron {

/// The program and arguments of one compilation. Pure.
std::vector<std::string> compile_words(const CompilerOptions& options, Phase phase, const std::filesystem::path& module,
                                       const std::filesystem::path& artifact);

/// The version that the program reports ("2.21.18209.0"), or empty if it does not exist. Fails with
/// `kFailedPrecondition` for a program that reports nothing. @blocking
Result<std::string> ask_version(const CompilerOptions& options);

/// Compiles the module `bytes` of `step` into `workspace.artifact`; all output of the program goes into
/// `workspace.log`. Fails as described for `explain` (failure.h). @blocking
Result<void> run_compiler(const CompilerOptions& options, const std::string& step, std::span<const std::byte> bytes,
                          const device::ArtifactWorkspace& workspace);

}  // namespace lockstep::neuron
