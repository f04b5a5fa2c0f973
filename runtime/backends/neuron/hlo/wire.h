// A module as the bytes of an HloModuleProto, which `neuronx-cc compile --framework XLA` reads (the module itself, not
// wrapped in an HloProto), and back. Written with a trimmed schema of our own (hlo.proto) and OpenXLA's field numbers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/backends/neuron/hlo/module.h"
#include "runtime/core/result.h"

namespace lockstep::neuron::hlo {

/// The same module gives the same bytes, on every machine.
std::vector<std::byte> to_bytes(const Module& module);

/// The inverse. Fails with `kInvalidArgument` for bytes that are no module, and for a module with an opcode, an element
/// type or an order of instructions that this backend does not write; the message names the instruction.
Result<Module> from_bytes(std::span<const std::byte> bytes);

}  // namespace lockstep::neuron::hlo
