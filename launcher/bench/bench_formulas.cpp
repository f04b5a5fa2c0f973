#include "launcher/bench/bench_formulas.h"

#include <algorithm>
#include <cmath>

namespace lockstep::launcher {

namespace {

double mean_cached(const BenchShape& shape) {
  return static_cast<double>(shape.prompt_tokens) + static_cast<double>(shape.new_tokens) / 2;
}

/// Bytes of experts that a step leaves alone.
double unread_experts(const graph::Graph& decode, const graph::Node& experts, int64_t batch) {
  const graph::ValueId route = experts.operands[1];
  for (const graph::Node& node : decode.nodes) {
    if (node.op != graph::Op::kMoeRoute || node.result != route) continue;
    const auto all = static_cast<double>(decode.value(route).type.shape[1]);
    const double idle = std::pow(1.0 - static_cast<double>(node.integer("chosen")) / all, batch);
    double bytes = 0;
    for (size_t weight = 2; weight < experts.operands.size(); ++weight) {
      bytes += static_cast<double>(decode.value(experts.operands[weight]).type.bytes());
    }
    return bytes * idle;
  }
  return 0;
}

/// The most tokens that a token sees in an attention with a window.
int64_t seen_tokens(const graph::Node& attention) {
  return attention.integer("window") + (attention.has("pinned") ? attention.integer("pinned") : 0);
}

/// Bytes of keys and values that one sequence's row reads on average.
double attended_bytes(const graph::Graph& decode, const graph::Node& attention, const BenchShape& shape) {
  double tokens = mean_cached(shape);
  if (attention.has("window")) tokens = std::min(tokens, static_cast<double>(seen_tokens(attention)));
  double bytes = 0;
  for (size_t operand : {1u, 2u}) {  // [slots, heads, capacity, head_dim]
    const TensorType& cache = decode.value(attention.operands[operand]).type;
    bytes += static_cast<double>(cache.shape[1] * cache.shape[3]) * static_cast<double>(size_of(cache.dtype));
  }
  return bytes * tokens;
}

/// Pairs of tokens of a prompt in which one sees the other, or itself; `most` is what a token sees, 0 for all.
double seeing_pairs(int64_t tokens, int64_t most) {
  const auto seen = static_cast<double>(most > 0 ? std::min(tokens, most) : tokens);
  return seen * (seen + 1) / 2 + (static_cast<double>(tokens) - seen) * seen;
}

}  // namespace

DecodeBytes decode_bytes(const graph::Graph& decode, const BenchShape& shape) {
  DecodeBytes bytes{.weights = static_cast<double>(graph::cost_of(decode).weight_bytes)};
  for (const graph::Node& node : decode.nodes) {
    if (node.op == graph::Op::kMoeExperts) bytes.weights -= unread_experts(decode, node, shape.batch);
    if (node.op == graph::Op::kAttention) bytes.cache += attended_bytes(decode, node, shape);
  }
  return bytes;
}

double bytes_per_token(const DecodeBytes& all, const BenchShape& shape) {
  return all.weights / static_cast<double>(shape.batch) + all.cache;
}

double flops_per_token(const checkpoint::ModelSpec& spec, int64_t prompt_tokens) {
  using checkpoint::Mlp;
  const int64_t query = spec.query_heads * spec.head_dim, key_value = spec.key_value_heads * spec.head_dim;
  const int64_t attention = spec.hidden_size * (2 * query + 2 * key_value);  // q, o, k, v
  const int64_t matrices = spec.mlp == Mlp::kPlain ? 2 : 3;                  // (gate,) up, down
  const int64_t active = spec.mlp == Mlp::kExperts ? spec.experts_per_token : 1;
  const int64_t mlp = matrices * active * spec.hidden_size * spec.intermediate_size + spec.experts * spec.hidden_size;
  const auto tokens = static_cast<double>(prompt_tokens);
  const double linears = 2.0 * static_cast<double>(spec.layers * (attention + mlp));
  const double head = 2.0 * static_cast<double>(spec.hidden_size * spec.vocabulary) / tokens;
  double pairs = 0;
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const int64_t window = spec.window(layer);
    pairs += seeing_pairs(prompt_tokens, window > 0 ? window + spec.pinned_sinks : 0);
  }
  return linears + head + 4.0 * static_cast<double>(query) * pairs / tokens;
}

std::string_view formulas() {
  return "B sequences, S prompt tokens, N new tokens; a multiply-add counts two.\n"
         "  bytes per token  (Σ over ranks of weights read once a step) / B + Σ over layers of min(S + N / 2, window) "
         "·\n"
         "                   keys and values of a token; of experts those that B tokens choose if all are alike\n"
         "  FLOPs per token  2 · weights of all linear layers + 2 · hidden · vocabulary / S\n"
         "                   + 4 · query heads · head_dim · pairs of tokens that see each other / S, over layers\n"
         "  of bandwidth     bytes per token · decode tokens/s / read probe\n"
         "  of peak          FLOPs per token · prefill tokens/s / dot probe\n"
         "A probe is the best of several kernels (and page sizes), before and after each repetition; the ratio of a\n"
         "repetition is to the mean of the two. A ratio above 1.02 says that the probe is bad.\n";
}

}  // namespace lockstep::launcher
