// The results of a benchmark as values, as a readable table and as JSON.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/measure/bench/bench_formulas.h"
#include "launcher/measure/bench/graph_use.h"
#include "launcher/measure/bench/invariance_cost.h"
#include "lockstep/engine.h"
#include "runtime/trace/time_split.h"
#include "shards/cost/prediction.h"

namespace lockstep::launcher {

/// A ratio to a limit above this one is void: the limit was measured wrongly, or while the machine was slower.
constexpr double kMostRatio = 1.02;

/// The machine's limits at one moment, all ranks together.
struct Limits {
  double read_bytes_per_s = 0.0;
  double flops_per_s = 0.0;  // of the best instruction for the model's data type
  std::string read_kernel, flops_kernel;
};

/// One rank's time split in the steps of each phase.
struct RankSplit {
  trace::PhaseSplit prefill, decode;
};

/// The results of one repetition.
struct Repetition {
  double begin_s = 0.0, end_s = 0.0;  // of its steps, on the monotonic clock of rank 0's host
  double prefill_s = 0.0;             // of all prefill steps
  double decode_s = 0.0;              // of the decode steps with all sequences, and of the gaps between them
  double ttft_s = 0.0;                // from submission to the first token of the first sequence
  double tpot_s = 0.0;                // between a sequence's tokens after its first, on average
  int64_t decode_tokens = 0;          // of those steps
  bool lacks_full_steps = false;      // no step had all sequences: these are figures of all decode steps
  std::vector<RankSplit> ranks;
  std::vector<std::string> stragglers;  // one sentence per phase in which a rank is slower than the others
  double clock_error_s = 0.0;           // largest error of the comparison of clocks, over ranks
  std::optional<PhaseSeconds> fast;     // the same with fast numerics, run next to it; if requested
  Limits limits;                        // from the probes before, during and after it
  std::optional<PhaseSeconds> replay;   // the same steps in a bare loop, run next to it; if requested
};

/// Times to the first token, in seconds.
struct FirstToken {
  double cold = 0.0;             // from the program's start: start-up (weights, graphs) and the first prompts
  double warm = 0.0;             // the first repetition after the warm-up, from its submission
  std::optional<double> steady;  // median of the later repetitions, from submission; empty if there are none
};

/// The whole report.
struct BenchReport {
  std::string model;  // the directory or the config
  std::string backend, communicator, dtype, flops_precision;
  int world_size = 1;
  int threads = 1;  // of rank 0
  BenchShape shape;
  int64_t prefill_chunk = 0, max_seq_len = 0;
  double bytes_per_token = 0.0;
  double flops_per_token = 0.0;
  std::string kv;  // "kept" or "fresh": the KV cache's memory when a repetition begins
  double decode_flops_per_token = 0.0;
  bool probes_devices = false;  // the limits are of devices beside the hosts
  bool one_clock = true;        // all ranks on one host; otherwise waiting has the error of the clock comparison
  int64_t dropped_collectives = 0;
  std::vector<Repetition> repetitions;                  // without the warm-up; at least one
  double very_first_ttft_s = 0.0;                       // of the first repetition, a warm-up or not
  std::vector<RankMemory> memory;                       // by rank
  std::vector<RankCores> cores;                         // by rank, from the first repetition on
  std::vector<GraphUse> graphs;                         // of rank 0, all repetitions and warm-ups together
  std::vector<std::pair<std::string, double>> startup;  // seconds by phase, rank 0
  std::vector<cost::LinkMeasurement> collectives;       // as timed at start; empty if they were not
  cost::Prediction predicted;                           // for the measured limits

  double prefill_tokens_per_s(const Repetition& r) const;
  double decode_tokens_per_s(const Repetition& r) const;
  double of_peak(const Repetition& r) const;
  double of_bandwidth(const Repetition& r) const;
  /// Decode speed relative to the lower of the limits by bandwidth and arithmetic.
  double decode_of_limit(const Repetition& r) const;
  /// The speed of the served repetition divided by that of its bare replay; 0 without one.
  double prefill_over_replay(const Repetition& r) const;
  double decode_over_replay(const Repetition& r) const;
  bool has_replay() const { return repetitions.front().replay.has_value(); }
  FirstToken first_token() const;
  /// A quantity over all repetitions.
  Spread spread(double (BenchReport::*quantity)(const Repetition&) const) const;
  /// Both empty unless requested.
  std::optional<NumericsPair> numerics_pair(const Repetition& r) const;
  std::optional<InvarianceCost> cost_of_invariance() const;
  /// Names of the void ratios of a repetition: "of_bandwidth", "of_peak", "decode_of_limit".
  std::vector<std::string> void_ratios(const Repetition& r) const;
  /// The ratios whose median is void. Single ones may be void on a machine that changes its speed.
  std::vector<std::string> void_ratios() const;
};

/// The measured machine: the repetitions' median limits, divided evenly between the ranks.
cost::MachineLimits measured_machine(const BenchReport& report);

/// The document of `bench --json`.
std::string to_json(const BenchReport& report);

/// The table on stdout.
std::string to_table(const BenchReport& report);

}  // namespace lockstep::launcher
