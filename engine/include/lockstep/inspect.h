// What engines of a model run and cost, without weights and ranks: the graphs of a rank, and plans of degrees.
//
//   LOCKSTEP_TRY(const Model model, Model::open(directory));
//   LOCKSTEP_TRY(const auto graphs, graphs_of_rank(model, {}, /*ranks=*/2, /*rank=*/1));
//   for (const graph::Graph& step : graphs) std::puts(to_text(step).c_str());
//   LOCKSTEP_TRY(const std::string json, plan_document(model, {}, {.most_ranks = 8}));
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/options.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace lockstep {

/// Whether a graph is shown as its family builds it, or after the passes, as the CPU backend compiles it.
enum class GraphForm { kBuilt, kCompiled };

/// The graphs that `rank` of `ranks` compiles at an engine's start under `options`, in the order of
/// EngineFacts::graphs: prefill, decode, then verify and score where the options ask for them. Reads the headers of the
/// weight files where the embedding is tied. Fails with `kInvalidArgument` for a rank that does not exist and with
/// `kUnsupported` for a degree that does not work. Pure except for files. @blocking (disk)
Result<std::vector<graph::Graph>> graphs_of_rank(const Model& model, const EngineOptions& options, int ranks, int rank,
                                                 GraphForm form = GraphForm::kCompiled);

/// The graph in its text form, one value or node a line, as `lockstep explain` prints it.
std::string to_text(const graph::Graph& graph);

/// The machine of a plan. Missing values come from `measure` or `probe`, or are assumed.
struct MachineOptions {
  std::optional<double> bandwidth, flops;            // of a rank: GB/s, GFLOP/s
  std::optional<double> host_bandwidth, host_flops;  // shared by the ranks of a host
  std::optional<int> ranks_per_host;                 // default: all on one
  std::optional<int> rank_cores;                     // default: the probed cores divided by the ranks
  std::optional<double> link_latency_us, link_bandwidth;
  std::optional<double> host_link_latency_us, host_link_bandwidth;  // between hosts; default: as between ranks
  double of_bandwidth = 1.0, of_peak = 1.0;                         // share of the limits that kernels reach
  std::optional<std::filesystem::path> probe;                       // a file of `lockstep bench --json`
  bool measure = false;                                             // measures this machine, which takes seconds
  std::optional<Bytes> probe_bytes;                                 // of each thread's buffer, for the measurement
};

/// The question that a plan answers.
struct PlanOptions {
  int most_ranks = 8;                    // degrees 1 to this are examined
  std::vector<int> degrees = {};         // of those, the ones to report and to choose from; empty: all
  std::optional<int64_t> prompt_tokens;  // of a sequence; default: 512, or the space in a slot
  int64_t new_tokens = 64;               // of a sequence
  MachineOptions machine;
};

/// The plan of `model` as JSON text: the document of `lockstep plan --json` (docs/planning.md). `options` give the
/// slots (default: 1), their capacity, the chunk, the memory budget and the devices. Fails with `kInvalidArgument` for
/// sizes that do not fit together and with the error of degree 1 where that does not work. @blocking with
/// MachineOptions::measure
Result<std::string> plan_document(const Model& model, const EngineOptions& options, const PlanOptions& plan = {});

}  // namespace lockstep
