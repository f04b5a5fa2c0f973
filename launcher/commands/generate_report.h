// What a run reports: the JSON of --json and the lines on stderr.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/generate/answers.h"
#include "launcher/ranks/phases.h"
#include "launcher/ranks/rank_memory.h"
#include "runtime/device/graph_register.h"
#include "runtime/trace/rank_report.h"
#include "shards/speculative_engine.h"

namespace lockstep::launcher {

/// The facts of a run beside its answers.
struct RunFacts {
  int world_size = 1;
  int threads = 1;
  std::string backend, communicator;
  int64_t slots = 0, chunk = 0, capacity = 0;
  std::vector<int64_t> batch_sizes, context_buckets, token_buckets;  // empty: one
  std::string dtype, weights;                                        // weights: "dtype" or "int8:64"
  std::vector<RankMemory> memory;                                    // by rank
  std::vector<std::pair<std::string, double>> startup;               // seconds by phase, rank 0
  size_t graphs_expected = 0;                                        // the closed set of the start
  std::vector<std::string> graphs, graphs_after_warmup;              // as compiled
  std::optional<shards::DraftStatistics> drafts;                     // where tokens were drafted
  std::optional<trace::GroupReport> group;                           // where the run was watched
};

/// The JSON document of `generate --json`.
std::string to_json(const Answers& answers, const RunFacts& facts);

/// A line for people: tokens, times, drafts and memory.
std::string summary(const Answers& answers, const RunFacts& facts);

}  // namespace lockstep::launcher
