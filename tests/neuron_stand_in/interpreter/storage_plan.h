// Assigns storage to each value of a module's entry computation. Storage is reused after the last read of its value.
// Reshapes and parts of tuples share their operand's storage; a state that is only written to is written in place.
#pragma once

#include <vector>

#include "runtime/backends/neuron/hlo/module.h"

namespace lockstep::stand_in {

struct StoragePlan {
  std::vector<std::vector<int>> of;  // storages by instruction; several for a tuple
  std::vector<size_t> bytes;         // by storage; 0 for parameters, whose memory the caller brings
  std::vector<int> parameters;       // storage by parameter number
  std::vector<bool> is_constant;     // by instruction: it depends on constants alone
};

/// Sorts' tuples are taken apart by get-tuple-element; the root is a tuple.
StoragePlan plan_storage(const neuron::hlo::Module& module);

}  // namespace lockstep::stand_in
