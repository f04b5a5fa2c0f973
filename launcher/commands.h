// The commands of the program, one function each. They return an error instead of ending the process; main turns it
// into a message and an exit code.
#pragma once

#include "launcher/cli/command_line.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Continues prompts with a model cut over the ranks. @collective @blocking
Result<void> generate(const GenerateCommand& command);

/// Measures prefill and decode of a model beside the machine's limits. @collective @blocking
Result<void> bench(const BenchCommand& command);

/// Checks the launch and the machine, without a model. Fails with an empty message, as all was said, when something is
/// wrong. @collective @blocking
Result<void> doctor(const DoctorCommand& command);

/// Prints or writes token ids and the text that they decode to.
Result<void> tokenize(const TokenizeCommand& command);

/// Prints partition, graphs, memory and cost of a model; reads config.json only.
Result<void> explain(const ExplainCommand& command);

}  // namespace lockstep::launcher
