// Conversion of a module to HloModuleProto bytes and back. `neuronx-cc compile --framework XLA` reads the module
// itself, without an HloProto around it. Uses a reduced schema (hlo.proto) with OpenXLA's field numbers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/backends/neuron/hlo/module.h"
#include "runtime/core/result.h"

namespace lockstep::neuron::hlo {

/// Equal modules give equal bytes, on every machine.
std::vector<std::byte> to_bytes(const Module& module);

/// The inverse. Fails with `kInvalidArgument` for malformed bytes, and for an opcode, element type or order of
/// instructions that this backend does not write; the message names the instruction.
Result<Module> from_bytes(std::span<const std::byte> bytes);

}  // namespace lockstep::neuron::hlo
