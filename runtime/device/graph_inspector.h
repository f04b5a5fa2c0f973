// What a backend makes of graphs, as text for people.
#pragma once

#include <span>
#include <string>

#include "runtime/core/result.h"
#include "runtime/device/backend.h"

namespace lockstep::device {

/// Pure. Steps are those that the backend compiles: see `Capabilities::whole_group`.
class GraphInspector {
 public:
  virtual ~GraphInspector() = default;

  /// What the steps of a run take together, as a line; empty: there is nothing to say.
  virtual Result<std::string> summary(std::span<const StepGraph> steps) const = 0;
  /// What becomes of one step.
  virtual Result<std::string> text_of(const StepGraph& step) const = 0;
};

}  // namespace lockstep::device
