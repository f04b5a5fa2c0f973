// Tables of the kernels that this build has, by the name of their instruction set.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "runtime/core/check.h"

namespace lockstep::cpu {

/// One instruction set of a table. `Table` is Kernels or CodedKernels.
template <typename Table>
struct BuiltKernels {
  std::string_view isa;
  const Table* kernels;
};

/// Null where the build leaves `isa` out.
template <typename Table, size_t kCount>
const Table* find_kernels(const BuiltKernels<Table> (&built)[kCount], std::string_view isa) {
  const auto* const found = std::ranges::find(built, isa, &BuiltKernels<Table>::isa);
  return found == std::end(built) ? nullptr : found->kernels;
}

/// As `find_kernels`, for an instruction set that the build must have.
template <typename Table, size_t kCount>
const Table& kernels_at(const BuiltKernels<Table> (&built)[kCount], std::string_view isa) {
  const Table* const found = find_kernels(built, isa);
  LOCKSTEP_CHECK(found != nullptr, isa);
  return *found;
}

}  // namespace lockstep::cpu
