// Measurement of a device's own limits, with kernels of its backend.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/core/clock.h"
#include "runtime/core/dtype.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"

namespace lockstep::device {

/// What a benchmark's steps do most.
struct ProbedWork {
  DType dtype = DType::kBFloat16;  // of products
  bool has_int8_weights = false;   // products of 8-bit integers instead
  std::optional<Bytes> bytes;      // to read in a pass; default: more than any cache holds
};

/// One pass of one kernel.
struct ProbePass {
  Duration time{};      // by the device's clock
  double amount = 0.0;  // bytes, or operations: a multiply-add counts two
};

/// Used by the executor's thread, between steps. Kernels are named and numbered from 0.
class LimitsProbe {
 public:
  virtual ~LimitsProbe() = default;

  virtual std::span<const std::string> readers() const = 0;
  virtual std::span<const std::string> multipliers() const = 0;
  /// The type of the factors: "bfloat16".
  virtual std::string_view precision() const = 0;

  /// Reads all bytes once. @blocking
  virtual Result<ProbePass> read(size_t reader) = 0;
  /// Multiplies and adds what no memory limits. @blocking
  virtual Result<ProbePass> multiply(size_t multiplier) = 0;
};

}  // namespace lockstep::device
