// What `compile` and `export` print and write.
#pragma once

#include <span>
#include <string>

#include "launcher/inspect/ahead.h"

namespace lockstep::launcher {

/// A step's line: name, what became of it, seconds, size, where it is; of a failure, its reason without the log.
std::string to_line(const CompiledStep& step);

/// "3 graphs for trn1, compiler 2.21.18209.0: 2 compiled, 1 cached; 41.0 s".
std::string to_summary(const neuron::Compiler& compiler, std::span<const CompiledStep> steps, double seconds);

/// {"compiler", "version", "target", "compiled", "cached", "failed", "seconds", "graphs": [{"name", "status",
/// "seconds", "bytes", "path", "origin", "module_bytes", "key", "error"}]}
std::string to_json(const neuron::Compiler& compiler, std::span<const CompiledStep> steps, double seconds);

}  // namespace lockstep::launcher
