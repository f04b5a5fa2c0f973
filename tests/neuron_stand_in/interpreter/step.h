// One compiled instruction of the interpreter: a function over memory. Its sizes, strides and element types are
// determined when the module is compiled. There is one file per kind of operation.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/backends/neuron/hlo/module.h"
#include "runtime/core/result.h"
#include "tests/neuron_stand_in/interpreter/exchange.h"

namespace lockstep::stand_in {

namespace hlo = neuron::hlo;

/// The memory of a step: storage i begins at `at[i]`.
struct Memory {
  std::vector<std::byte*> at;
  Exchange* exchange = nullptr;  // may be null in a group of one
};

/// An array in a storage.
struct Operand {
  hlo::Type type;
  int storage = -1;

  const std::byte* in(const Memory& memory) const { return memory.at[static_cast<size_t>(storage)]; }
  std::byte* out(const Memory& memory) const { return memory.at[static_cast<size_t>(storage)]; }
  size_t bytes() const { return static_cast<size_t>(type.elements()) * hlo::size_of(type.element); }
};

/// An instruction with its operands and results placed. Borrows the module.
struct Placed {
  const hlo::Module& module;
  const hlo::Instruction& instruction;
  std::vector<Operand> operands;
  std::vector<Operand> results;  // several where its type is a tuple
  int rank = 0;

  const Operand& result() const { return results.front(); }
  /// The message of a refused instruction.
  Error unsupported(const std::string& what) const;
};

using Run = std::function<Outcome(const Memory&)>;

// Each fails with `kUnsupported` for a use of the opcode that this backend's lowering does not make.
Result<Run> make_unary(const Placed& placed);
Result<Run> make_binary(const Placed& placed);
Result<Run> make_compare(const Placed& placed);
Result<Run> make_select(const Placed& placed);
Result<Run> make_convert(const Placed& placed);

Result<Run> make_copy(const Placed& placed);
Result<Run> make_iota(const Placed& placed);
Result<Run> make_broadcast(const Placed& placed);
Result<Run> make_transpose(const Placed& placed);
Result<Run> make_slice(const Placed& placed);
Result<Run> make_pad(const Placed& placed);
Result<Run> make_concatenate(const Placed& placed);

Result<Run> make_dynamic_slice(const Placed& placed);
Result<Run> make_gather(const Placed& placed);
Result<Run> make_scatter(const Placed& placed);

Result<Run> make_dot(const Placed& placed);
Result<Run> make_reduce(const Placed& placed);
Result<Run> make_sort(const Placed& placed);

Result<Run> make_all_reduce(const Placed& placed);
Result<Run> make_all_gather(const Placed& placed);

/// The opcode of a called computation that combines its two parameters in their order, as reducers do; or empty.
std::optional<hlo::Opcode> combining_opcode(const hlo::Computation& computation);

}  // namespace lockstep::stand_in
