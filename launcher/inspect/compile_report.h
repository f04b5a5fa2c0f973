// The output of `compile` and `export`.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/ahead_compiler.h"

namespace lockstep::launcher {

/// Called by one thread at a time.
using StepDone = std::function<void(const device::CompiledStep&)>;

/// Compiles all steps with `jobs` threads, even if some fail; returns them in their order. Calls `done` as each step
/// ends. @blocking
std::vector<device::CompiledStep> compile_steps(const device::AheadCompilation& compilation, int jobs,
                                                const StepDone& done);

/// A step's line: name, outcome, seconds, size, place; for a failure, its reason without the log.
std::string to_line(const device::CompiledStep& step);

/// "3 graphs for trn1, compiler 2.21.18209.0: 2 compiled, 1 cached; 41.0 s".
std::string to_summary(const device::CompilerFacts& compiler, std::span<const device::CompiledStep> steps,
                       double seconds);

/// {"compiler", "version", "target", "compiled", "cached", "failed", "seconds", "graphs": [{"name", "status",
/// "seconds", "bytes", "path", "origin", "module_bytes", "key", "error"}]}
std::string to_json(const device::CompilerFacts& compiler, std::span<const device::CompiledStep> steps, double seconds);

}  // namespace lockstep::launcher
