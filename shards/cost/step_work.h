// One rank's work in a step, counted from its graph: read bytes, floating-point operations and sent bytes. machine.h
// and prediction.h turn them into seconds.
//
//   ── stretch 0 ──┤ all-reduce ├── stretch 1 ──┤ all-reduce ├── … ──┤ all-gather ├── last stretch ──
//
// Ranks synchronise at every collective, so a step is a sequence of stretches, each as long as on its slowest rank.
//
// For a run of `rows` token rows of one sequence whose first stands at position p (so p tokens are in the cache
// before):
//
//   weight bytes   every weight once a step; of an embedding table one row a token (unless it is also the output head);
//                  of E experts those that the step's T rows choose, k each and equally likely:
//                  held · (1 − (1 − k / E)^T)
//   cache bytes    min(p + rows, seen + rows − 1) · keys and values of a token, a layer and a sequence; `seen` is the
//                  window and its pinned sinks
//   FLOPs          2 · rows · weights of the linear layers (of experts: with evenly spread rows)
//                  + 4 · query heads · head_dim · pairs of tokens that see each other
//
// If ranks hold whole sequences (the cache has fewer slots than the step), a rank is charged those of the rank with
// most: as many as its slots of several sequences, or the single one.
//
// Norms, rotations, activations and sampling are not counted: they stay in caches and are small compared with the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::cost {

/// Sequences served together.
struct Workload {
  int64_t batch = 1;
  int64_t prompt_tokens = 1;
  int64_t new_tokens = 2;  // at least 2: there is a decode step

  /// Tokens of a sequence on average over its decode steps.
  double mean_tokens() const { return static_cast<double>(prompt_tokens) + static_cast<double>(new_tokens) / 2; }
  friend bool operator==(const Workload&, const Workload&) = default;
};

/// Consecutive rows of a sequence in a step; `count` sequences are equal.
struct Run {
  int64_t count = 1;
  double first = 0;  // position of the first row
  int64_t rows = 1;

  friend bool operator==(const Run&, const Run&) = default;
};

/// The rows of a decode step of `load`, halfway through.
std::vector<Run> decode_rows(const Workload& load);

/// The rows of each prefill step, prompt after prompt, `chunk` rows a step.
std::vector<std::vector<Run>> prefill_rows(const Workload& load, int64_t chunk);

int64_t rows_of(const std::vector<Run>& runs);

/// Pairs of tokens in which one of the run's rows sees another token, or itself; `seen` is the most tokens that a token
/// sees, 0 for all.
double seeing_pairs(const Run& run, int64_t seen);

/// One attention node of a rank.
struct Attention {
  int64_t seen = 0;        // the most tokens that a token sees; 0: all
  double token_bytes = 0;  // keys and values of one token
  double pair_flops = 0;   // of one pair of tokens, all heads
  int64_t sequences = 0;   // at most so many of a step's are this rank's; 0: all

  friend bool operator==(const Attention&, const Attention&) = default;
};

/// A rank's experts of a layer, whole or in part.
struct Experts {
  int64_t held = 0, all = 0, chosen = 0;  // `chosen` by each row
  double bytes = 0;                       // of all held ones

  friend bool operator==(const Experts&, const Experts&) = default;
};

/// A layer whose sequences carry a state of a fixed size from row to row.
struct Recurrence {
  double sequence_bytes = 0;  // read of a sequence for its rows of one block
  int64_t block = 1;          // rows

  friend bool operator==(const Recurrence&, const Recurrence&) = default;
};

/// The work between two collectives.
struct Stretch {
  double weight_bytes = 0;  // read once a step; without experts
  double row_bytes = 0;     // read for each row: embeddings
  double row_flops = 0;     // for each row in use
  double step_flops = 0;    // independent of the rows in use: the head
  std::vector<Attention> attention;
  std::vector<Recurrence> recurrences;
  std::vector<Experts> experts;

  friend bool operator==(const Stretch&, const Stretch&) = default;
};

enum class CollectiveKind { kAllReduce, kAllGather, kAgree };

/// One rank's contribution to a collective, and the result.
struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  double row_bytes = 0, step_bytes = 0;                // contributed per row in use, and per step
  double result_row_bytes = 0, result_step_bytes = 0;  // the result, in the element type that is sent

  friend bool operator==(const Collective&, const Collective&) = default;
};

/// A rank's step, with one stretch more than collectives.
struct StepWork {
  std::vector<Stretch> stretches;
  std::vector<Collective> collectives;

  friend bool operator==(const StepWork&, const StepWork&) = default;
};

StepWork step_work(const graph::Graph& graph);

/// A stretch with its rows.
struct Amounts {
  double weight_bytes = 0;
  double cache_bytes = 0;
  double flops = 0;

  Amounts& operator+=(const Amounts& other);
  friend bool operator==(const Amounts&, const Amounts&) = default;
};

/// `busiest`: the number of a layer's experts that the busiest rank reads, if known better than from this rank alone.
Amounts amounts_of(const Stretch& stretch, const std::vector<Run>& runs, std::optional<double> busiest = std::nullopt);
/// The sum over the stretches.
Amounts amounts_of(const StepWork& work, const std::vector<Run>& runs);

}  // namespace lockstep::cost
