#include "shards/cost/prediction.h"

#include <algorithm>
#include <optional>

#include "shards/cost/expert_reads.h"

namespace lockstep::cost {
namespace {

StepParts parts_of(const Amounts& amounts, const Rates& rates) {
  StepParts parts{.weights_s = amounts.weight_bytes / rates.read_bytes_per_s,
                  .cache_s = amounts.cache_bytes / rates.read_bytes_per_s};
  parts.compute_s = std::max(0.0, amounts.flops / rates.flops_per_s - parts.weights_s - parts.cache_s);
  return parts;
}

std::optional<double> busiest_of(const GroupWork& group, int64_t rows) {
  if (group.experts_held.empty()) return std::nullopt;
  return expected_busiest(group.experts_held, group.experts_chosen, rows);
}

}  // namespace

StepParts& StepParts::operator+=(const StepParts& other) {
  weights_s += other.weights_s;
  cache_s += other.cache_s;
  compute_s += other.compute_s;
  communication_s += other.communication_s;
  return *this;
}

StepParts predict_step(const GroupWork& group, StepWork RankWork::*phase, const std::vector<Run>& runs,
                       const MachineLimits& machine) {
  const Rates rates = machine.of_each(group.size());
  const int64_t rows = rows_of(runs);
  const std::optional<double> busiest = busiest_of(group, rows);
  const StepWork& first = group.ranks.front().*phase;
  StepParts step;
  for (size_t s = 0; s < first.stretches.size(); ++s) {
    StepParts slowest;
    for (const RankWork& rank : group.ranks) {
      const StepParts own = parts_of(amounts_of((rank.*phase).stretches.at(s), runs, busiest), rates);
      if (own.total() > slowest.total()) slowest = own;
    }
    step += slowest;
  }
  for (size_t c = 0; c < first.collectives.size(); ++c) {
    std::vector<Collective> by_rank;
    for (const RankWork& rank : group.ranks) by_rank.push_back((rank.*phase).collectives.at(c));
    step.communication_s += collective_seconds(machine, by_rank, rows);
  }
  return step;
}

Prediction predict(const GroupWork& group, const Workload& load, const MachineLimits& machine) {
  Prediction prediction;
  prediction.decode = predict_step(group, &RankWork::decode, decode_rows(load), machine);
  prediction.tpot_s = prediction.decode.total();
  int64_t left = load.prompt_tokens;  // rows until the first prompt ends
  for (const std::vector<Run>& runs : prefill_rows(load, group.chunk)) {
    prediction.prefill += predict_step(group, &RankWork::prefill, runs, machine);
    if (left > 0 && left <= rows_of(runs)) prediction.ttft_s = prediction.prefill.total() + prediction.tpot_s;
    left -= rows_of(runs);
  }
  const auto batch = static_cast<double>(load.batch);
  prediction.decode_tokens_per_s = batch / prediction.tpot_s;
  prediction.prefill_tokens_per_s = batch * static_cast<double>(load.prompt_tokens) / prediction.prefill.total();
  return prediction;
}

}  // namespace lockstep::cost
