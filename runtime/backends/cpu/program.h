// A compiled step: stages that all workers run one after the other, with a barrier in between. All memory of a stage is
// allocated before the first step.
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

/// One section of a step. Exactly one of the two functions is set.
struct Stage {
  std::function<void(Part)> shared = {};     // every worker does its part
  std::function<Result<void>()> alone = {};  // worker 0, the executor's thread: collectives, serial work
  std::function<std::span<const std::byte>(Part)> reads = {};       // if known, the memory that a worker reads first
  std::function<std::span<const std::byte>(Part)> next_reads = {};  // the same for a stage that follows soon
};

/// Memory shared by the stages of an executable; sized during lowering, mapped before the first step.
struct Scratch {
  int64_t rows_in_use = 0;    // of the current step
  int64_t shared_bytes = 0;   // the largest request
  int64_t private_bytes = 0;  // the same, for each worker
  std::byte* shared_memory = nullptr;
  std::byte* private_memory = nullptr;

  void need_shared(int64_t bytes) { shared_bytes = bytes > shared_bytes ? bytes : shared_bytes; }
  void need_private(int64_t bytes) { private_bytes = bytes > private_bytes ? bytes : private_bytes; }
  std::byte* private_of(Part part) const { return private_memory + part.worker * private_bytes; }
};

/// The stages of an executable and the memory that it owns. Must not move after lowering, because the stages point to
/// it.
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
