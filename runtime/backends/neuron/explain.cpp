#include <fmt/format.h>

#include "runtime/backends/neuron/hlo/module.h"
#include "runtime/backends/neuron/lowering.h"
#include "runtime/backends/neuron/neuron.h"

namespace lockstep::neuron {

Result<std::string> explain(std::span<const graph::Graph> graphs) {
  LOCKSTEP_TRY(const LoweredStep step, lower(graphs));
  return fmt::format("# {} of {} ranks\n{}\n{}", step.module.name, step.signature.ranks, to_text(step.signature),
                     hlo::to_text(step.module));
}

}  // namespace lockstep::neuron
