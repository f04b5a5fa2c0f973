// `lockstep bench`.
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

/// The memory behind keys and values when a repetition of `bench` begins.
enum class KvMemory {
  kKept,   // as the repetition before left it: committed after the warm-up
  kFresh,  // none: it grows as tokens arrive
};

struct BenchCommand {
  ModelArguments model;
  EngineOptions engine;
  RunOptions run;
  bool random_weights = false;
  std::filesystem::path config;  // of random weights: there is no checkpoint
  BenchShape shape;
  int repeats = 5;
  int warmup = 1;
  KvMemory kv = KvMemory::kKept;
  bool invariance_cost = false;                // each repetition also with fast numerics
  bool replay = false;                         // time a bare replay of the same steps beside each repetition
  std::optional<std::filesystem::path> trace;  // of the last repetition
  std::optional<Bytes> probe_bytes;            // of each thread's buffer; default: what no cache holds
  std::optional<std::filesystem::path> json;
  SuiteOptions suite;
};

/// Measures prefill and decode of a model beside the machine's limits. @collective @blocking
Result<void> bench(const BenchCommand& command);

}  // namespace lockstep::launcher
