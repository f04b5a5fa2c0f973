// What the command line says about AWS's compiler, as the Neuron backend takes it.
#pragma once

#include "launcher/cli/command_line.h"
#include "runtime/backends/neuron/compiler/compiler.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// With this process's environment. Fails with `kInvalidArgument` for an unknown target and for flags that make no
/// sense.
Result<neuron::CompilerOptions> compiler_options(const NeuronOptions& options);

}  // namespace lockstep::launcher
