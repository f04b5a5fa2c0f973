// Predicted speed of a model at a degree, from the ranks' work (group_work.h) and the machine's rates (machine.h).
//
//   a stretch of a rank   max(read bytes / bytes/s, FLOPs / FLOP/s)
//   a step                Σ over stretches of the slowest rank's  +  Σ over collectives (machine.h)
//   time per token        a decode step with every slot in use, halfway through the new tokens
//   decode tokens/s       batch / time per token
//   prefill tokens/s      batch · prompt tokens / the sum of the prefill steps, prompts one after the other
//   first token           the prefill steps up to the end of the first prompt, and one decode step: a token is released
//                         when the next step has shown that all ranks agree on it
//
// The parts of a step's time add up: reading weights, reading the cache, communication, and compute (the time of
// arithmetic beyond the reads). With whole experts every rank is charged the busiest rank's mean reads
// (expert_reads.h). The model assumes kernels at the machine's limits, and no cost of norms, sampling and the time
// between steps. The prediction is therefore a bound for large models, and too fast for small ones.
#pragma once

#include "shards/cost/group_work.h"
#include "shards/cost/machine.h"

namespace lockstep::cost {

/// Seconds by cause.
struct StepParts {
  double weights_s = 0;
  double cache_s = 0;
  double compute_s = 0;  // beyond the reads
  double communication_s = 0;

  double total() const { return weights_s + cache_s + compute_s + communication_s; }
  double communication_share() const { return total() > 0 ? communication_s / total() : 0.0; }
  StepParts& operator+=(const StepParts& other);
  friend bool operator==(const StepParts&, const StepParts&) = default;
};

struct Prediction {
  StepParts decode;   // one step
  StepParts prefill;  // of all prompts
  double decode_tokens_per_s = 0;
  double prefill_tokens_per_s = 0;
  double tpot_s = 0;
  double ttft_s = 0;

  friend bool operator==(const Prediction&, const Prediction&) = default;
};

/// One step with the rows `runs`; `phase` is the member of RankWork that is run.
StepParts predict_step(const GroupWork& group, StepWork RankWork::*phase, const std::vector<Run>& runs,
                       const MachineLimits& machine);

/// Pure. `machine` is valid.
Prediction predict(const GroupWork& group, const Workload& load, const MachineLimits& machine);

}  // namespace lockstep::cost
