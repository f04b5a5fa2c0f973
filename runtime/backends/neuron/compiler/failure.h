// Explains a failed compilation to the user, with a table of known compiler failures. Pure.
#pragma once

#include <string>
#include <string_view>

#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "runtime/process/child_process.h"

namespace lockstep::neuron {

/// A compilation without an artifact.
struct FailedCompilation {
  std::string step;    // "decode_2048"
  std::string target;  // "trn1"
  std::string program;
  Duration deadline{};
  process::ChildOutcome outcome;
  std::string log;  // its last part
};

/// What happened, its meaning if known, advice, and the last lines of the log.
Error explain(const FailedCompilation& failed);

}  // namespace lockstep::neuron
