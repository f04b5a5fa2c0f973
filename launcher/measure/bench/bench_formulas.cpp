#include "launcher/measure/bench/bench_formulas.h"

#include <algorithm>

namespace lockstep::launcher {

DecodeBytes decode_bytes(const graph::Graph& decode, const BenchShape& shape) {
  const cost::Amounts step = cost::amounts_of(cost::step_work(decode), cost::decode_rows(shape));
  return {.weights = step.weight_bytes, .cache = step.cache_bytes / static_cast<double>(shape.batch)};
}

double bytes_per_token(const DecodeBytes& all, const BenchShape& shape) {
  return all.weights / static_cast<double>(shape.batch) + all.cache;
}

namespace {

/// FLOPs of one token in a layer with the delta rule: its matrices, and three products with the heads' states.
double delta_rule_flops(const checkpoint::ModelSpec& spec) {
  const checkpoint::DeltaRuleSpec& rule = spec.delta_rule;
  const int64_t keys = rule.key_heads * rule.key_dim, values = rule.value_heads * rule.value_dim;
  return 2.0 * static_cast<double>(spec.hidden_size * (2 * keys + 3 * values + 2 * rule.value_heads) +
                                   3 * values * rule.key_dim);
}

/// FLOPs of one token in all linear layers except the head.
double linear_flops(const checkpoint::ModelSpec& spec) {
  using checkpoint::Mlp;
  const int64_t query = spec.query_heads * spec.head_dim, key_value = spec.key_value_heads * spec.head_dim;
  const int64_t gate = spec.attention_gate ? query : 0;
  const int64_t attention = spec.hidden_size * (2 * query + 2 * key_value + gate);  // q, o, k, v
  const int64_t matrices = spec.mlp == Mlp::kPlain ? 2 : 3;                         // (gate,) up, down
  const bool has_experts = spec.mlp == Mlp::kExperts;
  const int64_t columns =
      has_experts ? spec.experts_per_token * spec.intermediate_size + spec.shared_expert_size : spec.intermediate_size;
  const int64_t mlp = spec.hidden_size * (matrices * columns + spec.experts + (spec.shared_expert_gate ? 1 : 0));
  const auto dense_layers = static_cast<int64_t>(spec.dense_layers.size());
  const auto recurrent = static_cast<int64_t>(spec.delta_layers.size());
  return 2.0 * static_cast<double>((spec.layers - recurrent) * attention + (spec.layers - dense_layers) * mlp +
                                   dense_layers * matrices * spec.hidden_size * spec.dense_size) +
         static_cast<double>(recurrent) * delta_rule_flops(spec);
}

double head_flops(const checkpoint::ModelSpec& spec) {
  return 2.0 * static_cast<double>(spec.hidden_size * spec.vocabulary);
}

/// FLOPs of attention for one pair of tokens in one layer.
double pair_flops(const checkpoint::ModelSpec& spec) {
  return 4.0 * static_cast<double>(spec.query_heads * spec.head_dim);
}

}  // namespace

double flops_per_token(const checkpoint::ModelSpec& spec, int64_t prompt_tokens) {
  const auto tokens = static_cast<double>(prompt_tokens);
  double pairs = 0;
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.has_delta_rule(layer)) continue;
    const int64_t window = spec.window(layer);
    pairs += cost::seeing_pairs({.rows = prompt_tokens}, window > 0 ? window + spec.pinned_sinks : 0);
  }
  return linear_flops(spec) + head_flops(spec) / tokens + pair_flops(spec) * pairs / tokens;
}

double decode_flops_per_token(const checkpoint::ModelSpec& spec, const BenchShape& shape) {
  double pairs = 0;
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.has_delta_rule(layer)) continue;
    const auto window = static_cast<double>(spec.window(layer) > 0 ? spec.window(layer) + spec.pinned_sinks : 0);
    pairs += window > 0 ? std::min(window, shape.mean_tokens()) : shape.mean_tokens();
  }
  return linear_flops(spec) + head_flops(spec) + pair_flops(spec) * pairs;
}

std::string_view formulas() {
  return "B sequences, S prompt tokens, N new tokens; a multiply-add counts two.\n"
         "  bytes per token  (Σ over ranks of weights read once a step) / B + Σ over layers of min(S + N / 2, window) "
         "·\n"
         "                   keys and values of a token; of experts those that B tokens choose if all are alike;\n"
         "                   of recurrent layers what a sequence carries\n"
         "  FLOPs per token  2 · weights of all linear layers + 2 · hidden · vocabulary / S\n"
         "                   + 4 · query heads · head_dim · pairs of tokens that see each other / S, over layers\n"
         "  of bandwidth     bytes per token · decode tokens/s / read probe\n"
         "  of peak          FLOPs per token · prefill tokens/s / dot probe\n"
         "  of limit         decode tokens/s / min(read probe / bytes per token, dot probe / FLOPs of a decode token)\n"
         "A probe is the best of several kernels (and page sizes) of the instruction set in use, each by the median "
         "of\n"
         "its passes before a repetition, between its steps and after it. A ratio above 1.02 is void: the probe is "
         "bad.\n";
}

}  // namespace lockstep::launcher
