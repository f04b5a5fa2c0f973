// Why a compilation failed, in words of the user. Pure: what is known of the compiler's failures is a table.
#pragma once

#include <string>
#include <string_view>

#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "runtime/process/child_process.h"

namespace lockstep::neuron {

/// A compilation that did not give an artifact.
struct FailedCompilation {
  std::string step;    // "decode_2048"
  std::string target;  // "trn1"
  std::string program;
  Duration deadline{};
  process::ChildOutcome outcome;
  std::string log;  // its end
};

/// What happened, what it means where that is known, what to do, and the last lines of the log.
Error explain(const FailedCompilation& failed);

}  // namespace lockstep::neuron
