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

/// Checks the launch and the machine, without a model, and says what it found; the exit code that fits.
/// @collective @blocking
Result<int> doctor(const DoctorCommand& command);

/// Runs `bench` over a grid of degrees, batch sizes and prompt lengths, and makes a report. @blocking
Result<void> sweep(const SweepCommand& command);

/// Runs a batch job, and starts it again from its journal when it is lost; the code that the last start ended with.
/// @blocking
Result<int> supervise(const SuperviseCommand& command);

/// Prints or writes token ids and the text that they decode to.
Result<void> tokenize(const TokenizeCommand& command);

/// Prints partition, graphs, memory and cost of a model; reads config.json only.
Result<void> explain(const ExplainCommand& command);

/// Prints which tensor-parallel degrees work, what they need and how fast they should be; reads config.json only, and
/// the machine's limits where it is asked to. @blocking
Result<void> plan(const PlanCommand& command);

/// Compiles the graphs of a model for the Neuron backend into the cache; reads config.json only. @blocking
Result<void> compile(const CompileCommand& command);

/// The same, and copies what was compiled to a folder. @blocking
Result<void> export_artifacts(const ExportCommand& command);

}  // namespace lockstep::launcher
