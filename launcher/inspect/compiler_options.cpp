#include "launcher/inspect/compiler_options.h"

#include <fmt/format.h>

#include "launcher/process/own_environment.h"
#include "runtime/process/child_process.h"

namespace lockstep::launcher {

Result<neuron::CompilerOptions> compiler_options(const NeuronOptions& options) {
  const auto target = neuron::target_from_name(options.target);
  if (!target) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] --neuron-target: found {}, expected trn1, trn2 or inf2", options.target)};
  }
  neuron::CompilerOptions compiler{.program = options.compiler, .environment = own_environment(), .target = *target};
  LOCKSTEP_TRY(compiler.prefill_flags, neuron::split_flags(options.prefill_flags));
  LOCKSTEP_TRY(compiler.decode_flags, neuron::split_flags(options.decode_flags));
  compiler.deadline = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.compile_deadline_s));
  LOCKSTEP_TRY_VOID(compiler.validate());
  return compiler;
}

}  // namespace lockstep::launcher
