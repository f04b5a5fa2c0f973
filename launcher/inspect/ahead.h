// Compilation ahead of time: what is compiled for a model, and every one of it compiled, several at once.
//
//   config.json + sizes ──► graphs of all ranks ──► lowered steps ──► cache, or compiler ──► what became of each
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cli/command_line.h"
#include "runtime/backends/neuron/compiler/compiler.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// What a run compiles at start.
struct CompilePlan {
  std::vector<neuron::LoweredStep> steps;
  std::vector<std::string> warnings;  // for the user; steps are compiled all the same
};

/// Of a run with these options. Reads config.json only. Fails with `kInvalidArgument` for sizes that the model cannot
/// serve, and as partitioning, building and lowering do.
Result<CompilePlan> plan_compilation(const CompileCommand& command);

/// What became of one step.
struct CompiledStep {
  std::string name;
  device::ArtifactKey key;
  Bytes module;  // size of what the compiler is given
  Result<device::Artifact> artifact;
  Bytes size;  // of the artifact
  double seconds = 0.0;

  /// "compiled", "cached" or "failed".
  std::string_view status() const;
};

/// Called by one thread at a time.
using StepDone = std::function<void(const CompiledStep&)>;

/// Compiles `steps` with `jobs` threads, all of them even if some fail, in the order of `steps`. `done` is told of each
/// as it ends. After `compiler.options().stop` was raised the rest fails with `kCancelled`. @blocking
std::vector<CompiledStep> compile_steps(const neuron::Compiler& compiler, const std::vector<neuron::LoweredStep>& steps,
                                        device::ArtifactCache& cache, int jobs, const StepDone& done);

}  // namespace lockstep::launcher
