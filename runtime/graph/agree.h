// Operands and constants of the operation `agree` (OPERATIONS.md), for the backends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::graph {

/// Its operands, in order.
struct AgreeOperand {
  enum : size_t {
    kHidden,
    kStep,
    kLastId,
    kLength,
    kOutputIndex,
    kParameterHash,
    kStopRequest,
    kFinished,
  };
};

/// At most this many bytes of each row of the hidden state are compared.
inline constexpr int64_t kAgreedBytes = 16;

}  // namespace lockstep::graph
