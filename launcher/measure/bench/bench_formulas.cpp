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

/// Multiply-adds of one token in a layer with the delta rule: its matrices, and three products with the heads' states.
int64_t delta_rule_products(const checkpoint::ModelSpec& spec) {
  const checkpoint::DeltaRuleSpec& rule = spec.delta_rule;
  const int64_t keys = rule.key_heads * rule.key_dim, values = rule.value_heads * rule.value_dim;
  return spec.hidden_size * (2 * keys + 3 * values + 2 * rule.value_heads) + 3 * values * rule.key_dim;
}

/// Columns of all matrices of hidden size that a token passes in the MLP of `layer`, or in its experts.
int64_t mlp_columns(const checkpoint::ModelSpec& spec, int64_t layer) {
  using checkpoint::Mlp;
  const int64_t matrices = spec.mlp == Mlp::kPlain ? 2 : 3;  // (gate,) up, down
  if (spec.mlp != Mlp::kExperts) return matrices * spec.mlp_size(layer);
  if (!spec.has_experts(layer)) return matrices * spec.dense_size;
  const int64_t columns = spec.experts_per_token * spec.intermediate_size + spec.shared_expert_size;
  return matrices * columns + spec.experts + (spec.shared_expert_gate ? 1 : 0);
}

/// FLOPs of one token in all linear layers except the head.
double linear_flops(const checkpoint::ModelSpec& spec) {
  const int64_t inputs = 3 * spec.hidden_size * spec.layer_input_size;                 // projection, gate, projection
  const int64_t routers = spec.streams > 1 ? 2 * spec.hidden_size * spec.streams : 0;  // of prediction and correction
  const int64_t beside = inputs + routers + 2 * spec.hidden_size * spec.laurel_rank;
  int64_t multiply_adds = 2 * (spec.streams - 1) * spec.hidden_size * spec.hidden_size;  // to streams, and from them
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const checkpoint::HeadShape heads = spec.heads_of(layer);
    const int64_t key_value = spec.shares_cache(layer) ? 0 : heads.key_value_rows();
    const int64_t of_all = key_value + (spec.latent ? spec.latent->query_rank : 0);
    multiply_adds += spec.has_delta_rule(layer)
                         ? delta_rule_products(spec)
                         : spec.query_heads * spec.query_head_elements(layer) + spec.hidden_size * of_all;
    multiply_adds += spec.hidden_size * mlp_columns(spec, layer) + beside;
  }
  return 2.0 * static_cast<double>(multiply_adds);
}

double head_flops(const checkpoint::ModelSpec& spec) {
  return 2.0 * static_cast<double>(spec.hidden_size * spec.vocabulary);
}

/// FLOPs of attention for one pair of tokens in `layer`.
double pair_flops(const checkpoint::ModelSpec& spec, int64_t layer) {
  const int64_t key = spec.heads_of(layer).head_dim, value = spec.latent ? spec.latent->rank : key;
  return 2.0 * static_cast<double>(spec.query_heads * (key + value));
}

}  // namespace

double flops_per_token(const checkpoint::ModelSpec& spec, int64_t prompt_tokens) {
  const auto tokens = static_cast<double>(prompt_tokens);
  double pairs = 0;  // times their FLOPs
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.has_delta_rule(layer)) continue;
    const int64_t window = spec.window(layer);
    pairs += pair_flops(spec, layer) *
             cost::seeing_pairs({.rows = prompt_tokens}, window > 0 ? window + spec.pinned_sinks : 0);
  }
  return linear_flops(spec) + head_flops(spec) / tokens + pairs / tokens;
}

double decode_flops_per_token(const checkpoint::ModelSpec& spec, const BenchShape& shape) {
  double pairs = 0;  // times their FLOPs
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.has_delta_rule(layer)) continue;
    const auto window = static_cast<double>(spec.window(layer) > 0 ? spec.window(layer) + spec.pinned_sinks : 0);
    pairs += pair_flops(spec, layer) * (window > 0 ? std::min(window, shape.mean_tokens()) : shape.mean_tokens());
  }
  return linear_flops(spec) + head_flops(spec) + pairs;
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
