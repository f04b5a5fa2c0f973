// The command `lockstep bench`.
#pragma once

#include <filesystem>
#include <optional>

#include "launcher/measure/bench/bench_formulas.h"
#include "launcher/measure/bench/suite_options.h"
#include "launcher/process/model_arguments.h"
#include "launcher/process/run_options.h"
#include "lockstep/options.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// The memory of the KV cache at the begin of a repetition of `bench`.
enum class KvMemory {
  kKept,   // as the previous repetition left it: committed after the warm-up
  kFresh,  // none: it grows as tokens arrive
};

struct BenchCommand {
  ModelArguments model;
  EngineOptions engine;
  RunOptions run;
  bool random_weights = false;
  std::filesystem::path config;  // for random weights without a checkpoint
  BenchShape shape;
  int repeats = 5;
  int warmup = 1;
  KvMemory kv = KvMemory::kKept;
  bool invariance_cost = false;                // repeat each repetition with fast numerics
  bool replay = false;                         // time a bare replay of the same steps with each repetition
  std::optional<std::filesystem::path> trace;  // of the last repetition
  std::optional<Bytes> probe_bytes;            // of each thread's buffer; default: larger than any cache
  std::optional<std::filesystem::path> json;
  std::optional<int> barrier;  // an inherited end (process_barrier.h): each repetition begins when the others' do
  SuiteOptions suite;
};

/// Measures prefill and decode of a model together with the machine's limits. @collective @blocking
Result<void> bench(const BenchCommand& command);

}  // namespace lockstep::launcher
