// What a run reports: the JSON of --json and the lines on stderr.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/generate/answers.h"
#include "launcher/ranks/phases.h"
#include "runtime/device/backend.h"
#include "runtime/device/graph_register.h"
#include "shards/speculative_engine.h"

namespace lockstep::launcher {

/// The facts of a run beside its answers.
struct RunFacts {
  int world_size = 1;
  int threads = 1;
  std::string backend, communicator;
  int64_t slots = 0, chunk = 0, capacity = 0;
  std::vector<device::MemoryReport> memory;              // by rank
  std::vector<std::pair<std::string, double>> startup;   // seconds by phase, rank 0
  size_t graphs_expected = 0;                            // the closed set of the start
  std::vector<std::string> graphs, graphs_after_warmup;  // as compiled
  std::optional<shards::DraftStatistics> drafts;         // where tokens were drafted
};

/// The JSON document of `generate --json`.
std::string to_json(const Answers& answers, const RunFacts& facts);

/// A line for people: tokens, times, drafts and memory.
std::string summary(const Answers& answers, const RunFacts& facts);

/// A memory report as one line of text, and back: ranks exchange them.
std::string to_text(const device::MemoryReport& memory);
device::MemoryReport parse_memory(const std::string& text);

}  // namespace lockstep::launcher
