#include "launcher/bench_formulas.h"

#include <set>

namespace lockstep::launcher {

DecodeBytes decode_bytes(const graph::Graph& decode) {
  DecodeBytes bytes{.weights = graph::cost_of(decode).weight_bytes};
  std::set<graph::ValueId> caches;  // [slots, heads, capacity, head_dim]
  for (const graph::Node& node : decode.nodes) {
    if (node.op != graph::Op::kAttention) continue;
    for (const graph::ValueId operand : node.operands) {
      const graph::Value& value = decode.value(operand);
      if (value.kind == graph::ValueKind::kState && value.type.shape.rank() == 4) caches.insert(operand);
    }
  }
  for (const graph::ValueId cache : caches) {
    const TensorType& type = decode.value(cache).type;
    bytes.cache_per_token += type.shape[1] * type.shape[3] * static_cast<int64_t>(size_of(type.dtype));
  }
  return bytes;
}

double bytes_per_token(const DecodeBytes& all, const BenchShape& shape) {
  const double cached = static_cast<double>(shape.prompt_tokens) + static_cast<double>(shape.new_tokens) / 2;
  return static_cast<double>(all.weights) / static_cast<double>(shape.batch) +
         cached * static_cast<double>(all.cache_per_token);
}

double flops_per_token(const checkpoint::ModelSpec& spec, int64_t prompt_tokens) {
  const int64_t query = spec.query_heads * spec.head_dim, key_value = spec.key_value_heads * spec.head_dim;
  const int64_t attention = spec.hidden_size * (2 * query + 2 * key_value);  // q, o, k, v
  const int64_t mlp = 3 * spec.hidden_size * spec.intermediate_size;         // gate, up, down
  const auto tokens = static_cast<double>(prompt_tokens);
  const double linears = 2.0 * static_cast<double>(spec.layers * (attention + mlp));
  const double head = 2.0 * static_cast<double>(spec.hidden_size * spec.vocabulary) / tokens;
  const double scores = 2.0 * static_cast<double>(spec.layers * query) * (tokens + 1);
  return linears + head + scores;
}

std::string_view formulas() {
  return "B sequences, S prompt tokens, N new tokens; a multiply-add counts two.\n"
         "  bytes per token  (Σ over ranks of weights read once a step) / B + (S + N / 2) · keys and values of a "
         "token\n"
         "  FLOPs per token  2 · weights of all linear layers + 2 · hidden · vocabulary / S\n"
         "                   + 2 · layers · query heads · head_dim · (S + 1)\n"
         "  of bandwidth     bytes per token · decode tokens/s / read probe\n"
         "  of peak          FLOPs per token · prefill tokens/s / dot probe\n"
         "A probe is the best of several kernels (and page sizes), before and after each repetition; the ratio of a\n"
         "repetition is to the mean of the two. A ratio above 1.02 says that the probe is bad.\n";
}

}  // namespace lockstep::launcher
