// Readable text about a backend's compiled form of graphs.
#pragma once

#include <span>
#include <string>

#include "runtime/core/result.h"
#include "runtime/device/backend.h"

namespace lockstep::device {

/// Pure. Takes the steps as the backend compiles them (see `Capabilities::whole_group`).
class GraphInspector {
 public:
  virtual ~GraphInspector() = default;

  /// The total cost of a run's steps in one line; may be empty.
  virtual Result<std::string> summary(std::span<const StepGraph> steps) const = 0;
  /// The compiled form of one step.
  virtual Result<std::string> text_of(const StepGraph& step) const = 0;
};

}  // namespace lockstep::device
