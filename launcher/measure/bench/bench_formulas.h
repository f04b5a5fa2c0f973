// Denominators of a benchmark: bytes and floating-point operations, counted from the model, not measured.
// shards/cost/step_work.h counts a graph.
//
//   B  sequences at once      S  prompt tokens      N  new tokens (the first comes from prefill, N − 1 from decode)
//
// Bytes of a decode step: every weight that a rank's decode graph reads, once (of an embedding table one row a
// sequence; of a table that is also the output head, all of it; of E experts the expected number that B tokens with k
// experts each choose, if all experts are equally likely, E · (1 − (1 − k / E)^B)), and the keys and values of every
// token that a layer attends to (pinned sinks count to its window), on average over the N − 1 decode steps:
//
//   bytes per step  = Σ over ranks of (weight bytes + B · Σ over layers of min(S + N / 2, window) · cache bytes of a
//                     token)
//   bytes per token = bytes per step / B
//   of_bandwidth    = bytes per token · decode tokens/s / read probe
//
// Data that two ranks both read (a key/value head that both need) counts twice. Activations, the cache's new row and
// all other data that stays in caches count nothing.
//
// FLOPs of a prompt: a multiply-add counts as two. Work that several ranks repeat counts once. Attention is causal.
// The output head runs once, for the last row:
//
//   FLOPs per prompt = 2 · S · (weights of all linear layers) + 2 · hidden · vocabulary
//                      + 2 · query heads · (key + value elements) · Σ over layers of the attended pairs of tokens
//   FLOPs per token  = FLOPs per prompt / S
//   of_peak          = FLOPs per token · prefill tokens/s / dot probe
//
// They are those of the model's graphs on one rank (shards/cost/step_work.h), which also count recurrences.
//
// FLOPs of a decode token: the linear layers, the head, and attention to the mean length of a sequence. With many
// sequences they may be the limit before the bytes are:
//
//   of_limit = decode tokens/s / min(read probe / bytes per token, dot probe / FLOPs of a decode token)
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"
#include "shards/cost/step_work.h"

namespace lockstep::launcher {

/// The sizes of a benchmark.
using BenchShape = cost::Workload;

/// Bytes that one rank, or all together, read in a decode step.
struct DecodeBytes {
  double weights = 0;
  double cache = 0;  // keys and values of one sequence, all layers

  DecodeBytes& operator+=(const DecodeBytes& other) {
    weights += other.weights;
    cache += other.cache;
    return *this;
  }
  friend bool operator==(const DecodeBytes&, const DecodeBytes&) = default;
};

/// The bytes of one rank's decode graph.
DecodeBytes decode_bytes(const graph::Graph& decode, const BenchShape& shape);

/// Bytes read per token; `all` is the sum over the ranks.
double bytes_per_token(const DecodeBytes& all, const BenchShape& shape);

/// Floating-point operations of one token.
struct TokenFlops {
  double prefill = 0;  // on average over a prompt
  double decode = 0;   // at a sequence's mean length
};

/// The operations of `spec`, all ranks together. Fails as `make_partition`.
Result<TokenFlops> flops_of_token(const checkpoint::ModelSpec& spec, const BenchShape& shape);

/// The formulas as text, for --help and the table's footer.
std::string_view formulas();

}  // namespace lockstep::launcher
