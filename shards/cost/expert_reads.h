// What the experts of a mixture cost a decode step, for each way to divide them between ranks. Decode is bound by
// reading weights, and every rank waits for the one that reads most.
//
//   columns   every rank has a part of every expert, and reads that part of all that the step's rows choose
//   whole     a rank reads those of its own experts that are chosen; the busiest one has most of them
//
// Each row chooses k of E experts, all sets alike and every row for itself. The numbers are exact for that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_spec.h"
#include "shards/partition/partition.h"

namespace lockstep::cost {

/// How many different experts `rows` rows choose of `experts`, `each` by each row: element d is the probability of d
/// different ones. [experts + 1]
std::vector<double> distribution_of_chosen(int64_t experts, int64_t each, int64_t rows);

/// The chosen experts of the rank that has most of them, on average; `held[r]` is how many rank r holds.
double expected_busiest(const std::vector<int64_t>& held, int64_t each, int64_t rows);

/// What the busiest rank reads of experts in a decode step.
struct ExpertReads {
  double experts = 0.0;  // of a layer, whole or in part, on average
  double bytes = 0.0;    // of all layers
};

/// With the experts of `spec` (there are some) divided as in `partition` and kept as `dtype`.
ExpertReads expert_reads(const checkpoint::ModelSpec& spec, const partition::Partition& partition, DType dtype,
                         int64_t rows);

/// Both ways to divide the experts between `ranks`, what each reads, which is cheaper and how to get it.
std::string compare_expert_splits(const checkpoint::ModelSpec& spec, int ranks, DType dtype, int64_t rows);

}  // namespace lockstep::cost
