// Encodes rows of keys and values in 8 bits with the kernels of an instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/backends/cpu/kernels/int8.h"
#include "runtime/backends/cpu/kernels/kernels.h"

namespace lockstep::cpu {

/// Equal to `encode_cache_row` (runtime/core/cache_rows.h) for every instruction set.
class RowEncoder {
 public:
  /// Borrows the kernels.
  explicit RowEncoder(const Kernels& kernels) : kernels_(&kernels), integers_(&int8_kernels_for(kernels.isa)) {}

  /// Writes `count` values, at most kMostCodedRow, as codes `dtype` and their scale.
  void encode(DType dtype, ConstRow values, int64_t count, std::byte* row) const;

 private:
  const Kernels* kernels_;
  const Int8Kernels* integers_;
};

}  // namespace lockstep::cpu
