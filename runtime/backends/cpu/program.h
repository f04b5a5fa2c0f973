// A compiled step: stages that all workers run one after the other, with a barrier in between. Everything that a stage
// touches has its address before the first step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/cpu/memory.h"
#include "runtime/backends/cpu/tensor.h"
#include "runtime/backends/cpu/thread_team.h"
#include "runtime/core/result.h"

namespace lockstep::cpu {

/// One stretch of a step. Exactly one of the two functions is set.
struct Stage {
  std::function<void(Part)> shared = {};     // every worker does its part
  std::function<Result<void>()> alone = {};  // worker 0, the executor's thread: collectives, serial work
  std::function<std::span<const std::byte>(Part)> reads = {};  // where known, the memory that a worker will read first
  std::function<std::span<const std::byte>(Part)> next_reads = {};  // the same of a stage that follows soon
};

/// Memory that the stages of one executable use in turn; sized while they are made, mapped before the first step.
struct Scratch {
  int64_t rows_in_use = 0;    // of the running step
  int64_t shared_bytes = 0;   // the largest request
  int64_t private_bytes = 0;  // the same, for each worker
  std::byte* shared_memory = nullptr;
  std::byte* private_memory = nullptr;

  void need_shared(int64_t bytes) { shared_bytes = bytes > shared_bytes ? bytes : shared_bytes; }
  void need_private(int64_t bytes) { private_bytes = bytes > private_bytes ? bytes : private_bytes; }
  std::byte* private_of(Part part) const { return private_memory + part.worker * private_bytes; }
};

/// What an executable runs and the memory that it owns. Not moved after the stages are made: they point into it.
struct Program {
  struct Input {
    TensorType type;
    std::string name;
    std::byte* data = nullptr;
  };
  std::vector<Input> inputs;
  std::map<std::string, Tensor, std::less<>> outputs;
  std::vector<Stage> stages;
  Scratch scratch;
  Mapping workspace;  // inputs, constants and results
  Mapping scratch_mapping;
  std::vector<std::vector<float>> tables;  // rope's cosines and sines
  int64_t workspace_bytes() const { return workspace.size() + scratch_mapping.size(); }
};

}  // namespace lockstep::cpu
