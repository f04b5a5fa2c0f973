// Encodes rows of keys and values in 8 bits with the kernels of an instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/backends/cpu/kernels/coded.h"
#include "runtime/backends/cpu/kernels/kernels.h"

namespace lockstep::cpu {

/// Equal to `encode_cache_row` (runtime/core/cache_rows.h) for every instruction set.
class RowEncoder {
 public:
  /// Borrows the kernels.
  explicit RowEncoder(const Kernels& kernels)
      : kernels_(&kernels), integers_(&coded_kernels_for(kernels.isa, DotKind::kBytes)) {}

  /// Writes `count` values, at most kMostCodedRow, as codes `dtype` and their scale.
  void encode(DType dtype, ConstRow values, int64_t count, std::byte* row) const;

 private:
  const Kernels* kernels_;
  const CodedKernels* integers_;
};

}  // namespace lockstep::cpu
