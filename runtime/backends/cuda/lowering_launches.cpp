// What lowering adds to a plan: launches, their tables and scratch.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/backends/cuda/kernel_set.h"
#include "runtime/backends/cuda/lowering.h"
#include "runtime/core/check.h"

namespace lockstep::cuda {

void Lowering::emit_bytes(const std::string& name, std::span<const std::byte> parameters, int64_t blocks,
                          const BlockShape& shape) {
  if (blocks <= 0) return;  // nothing to compute
  const KernelRow& row = kernel_row(name);
  LOCKSTEP_CHECK(row.parameter_bytes == parameters.size(), name, row.parameter_bytes, parameters.size());
  const bool follows_launch = row.follows && !shape.waits && !plan_.launches.empty() && !plan_.launches.back().matmul;
  plan_.launches.push_back({.kernel = name,
                            .shape = {.blocks = static_cast<int>(blocks),
                                      .threads = shape.threads.value_or(row.threads),
                                      .shared_bytes = shape.shared_bytes.value_or(row.shared_bytes),
                                      .waits_for_blocks = shape.waits,
                                      .starts_early = bases_.starts_early && follows_launch},
                            .parameters = {parameters.begin(), parameters.end()},
                            .node = 0});
}

int64_t Lowering::walking_blocks(int64_t units, int64_t of_multiprocessor) const {
  return std::min(units, of_multiprocessor * bases_.multiprocessors);
}

uint64_t Lowering::add_table(std::span<const std::byte> contents) {
  const size_t at = plan_.tables.size();
  plan_.tables.resize(at + static_cast<size_t>(padded(std::ssize(contents))));
  if (!contents.empty()) std::memcpy(plan_.tables.data() + at, contents.data(), contents.size());
  return bases_.tables + at;
}

const int32_t* Lowering::table_of(std::span<const int64_t> numbers) {
  const std::vector<int32_t> narrow(numbers.begin(), numbers.end());
  return table(std::span<const int32_t>(narrow));
}

uint64_t Lowering::scratch(int64_t bytes) {
  const int64_t offset = space_.take(padded(bytes));
  scratch_.emplace_back(offset, padded(bytes));
  return bases_.workspace + static_cast<uint64_t>(offset);
}

std::string Lowering::typed(std::string_view name, DType dtype) { return fmt::format("{}_{}", name, to_string(dtype)); }

std::string Lowering::sized(std::string_view name, DType dtype) { return fmt::format("{}_{}", name, size_of(dtype)); }

}  // namespace lockstep::cuda
