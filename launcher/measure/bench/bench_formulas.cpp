#include "launcher/measure/bench/bench_formulas.h"

#include "shards/shard_graphs.h"

namespace lockstep::launcher {

DecodeBytes decode_bytes(const graph::Graph& decode, const BenchShape& shape) {
  const cost::Amounts step = cost::amounts_of(cost::step_work(decode), cost::decode_rows(shape));
  return {.weights = step.weight_bytes, .cache = step.cache_bytes / static_cast<double>(shape.batch)};
}

double bytes_per_token(const DecodeBytes& all, const BenchShape& shape) {
  return all.weights / static_cast<double>(shape.batch) + all.cache;
}

Result<TokenFlops> flops_of_token(const checkpoint::ModelSpec& spec, const BenchShape& shape) {
  LOCKSTEP_TRY(const partition::Partition whole, partition::make_partition(spec, 1));
  const shards::ShardOptions options{.slots = 1, .chunk = 1, .capacity = spec.max_positions};
  LOCKSTEP_TRY(const shards::ShardGraphs graphs, shards::build_graphs(spec, whole, 0, options, {}));
  const auto flops = [](const graph::Graph& step, const std::vector<cost::Run>& rows) {
    return cost::amounts_of(cost::step_work(step), rows).flops;
  };
  BenchShape alone = shape;
  alone.batch = 1;
  return TokenFlops{.prefill = flops(graphs.prefill.back(), {{.rows = shape.prompt_tokens}}) /
                               static_cast<double>(shape.prompt_tokens),
                    .decode = flops(graphs.decode.back(), cost::decode_rows(alone))};
}

std::string_view formulas() {
  return "B sequences, S prompt tokens, N new tokens; a multiply-add counts two.\n"
         "  bytes per token  (Σ over ranks of weights read once a step) / B + Σ over layers of min(S + N / 2, window) "
         "·\n"
         "                   keys and values of a token; of experts those that B tokens choose if all are alike;\n"
         "                   of recurrent layers what a sequence carries\n"
         "  FLOPs per token  2 · weights of all linear layers + 2 · hidden · vocabulary / S\n"
         "                   + 2 · query heads · (key + value elements) · pairs of tokens that see each other / S,\n"
         "                   over layers; of recurrent layers, products with what a sequence carries\n"
         "  of bandwidth     bytes per token · decode tokens/s / read probe\n"
         "  of peak          FLOPs per token · prefill tokens/s / dot probe\n"
         "  of limit         decode tokens/s / min(read probe / bytes per token, dot probe / FLOPs of a decode token)\n"
         "A probe is the best of several kernels (and page sizes) of the instruction set in use, each by the median "
         "of\n"
         "its passes before a repetition, between its steps and after it. A ratio above 1.02 is void: the probe is "
         "bad.\n";
}

}  // namespace lockstep::launcher
