// The cost of a mixture's experts in a decode step, for each division between ranks. Decode is limited by reading
// weights, and every rank waits for the rank that reads most.
//
//   columns   every rank holds a part of every expert, and reads its part of all chosen experts
//   whole     a rank reads its own chosen experts; the busiest rank has most of them
//
// Each row chooses k of E experts; all sets are equally likely and rows are independent. The numbers are exact under
// this assumption.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_spec.h"
#include "shards/partition/partition.h"

namespace lockstep::cost {

/// The distribution of the number of different experts that `rows` rows choose of `experts`, `each` per row: element d
/// is the probability of d. [experts + 1]
std::vector<double> distribution_of_chosen(int64_t experts, int64_t each, int64_t rows);

/// The mean number of chosen experts on the rank with most of them; rank r holds `held[r]` experts.
double expected_busiest(const std::vector<int64_t>& held, int64_t each, int64_t rows);

/// The busiest rank's reads of experts in a decode step.
struct ExpertReads {
  double experts = 0.0;  // of a layer, whole or in part, on average
  double bytes = 0.0;    // of all layers
};

/// With the experts of `spec` (there are some) divided as in `partition` and kept as `dtype`.
ExpertReads expert_reads(const checkpoint::ModelSpec& spec, const partition::Partition& partition, DType dtype,
                         int64_t rows);

/// Text that compares both divisions of the experts between `ranks`: their reads, the cheaper one and its flag.
std::string compare_expert_splits(const checkpoint::ModelSpec& spec, int ranks, DType dtype, int64_t rows);

}  // namespace lockstep::cost
