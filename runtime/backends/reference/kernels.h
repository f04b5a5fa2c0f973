// The kernels, one function per operation of runtime/graph/OPERATIONS.md. Each reads `call.operands` and writes
// `call.result` (or the states among its operands); the executable rounds the result afterwards.
#pragma once

#include <vector>

#include "runtime/backends/reference/tensor.h"
#include "runtime/device/communicator.h"
#include "runtime/graph/graph.h"
#include "runtime/sampling/sampling.h"

namespace lockstep::reference {

/// A kernel's input besides its tensors. Borrows everything.
struct Environment {
  int rank = 0;
  int ranks = 1;
  device::Communicator* communicator = nullptr;  // null in a group of one
  sampling::Scratch* scratch = nullptr;          // null when no node samples
};

/// One node with its tensors.
struct Call {
  graph::Node node;
  std::vector<Tensor> operands;
  std::optional<Tensor> result;
  std::optional<device::TreeSum> sum;  // of nodes with `blocks`
  std::vector<int64_t> int8_widths;    // for each operand, a matrix in codes: columns that share a scale of the 8-bit
                                       // rows that it multiplies; 0: rows as they are
};

using Kernel = Result<void> (*)(const Call&, const Environment&);

// dense.cpp
Result<void> embedding(const Call& call, const Environment&);
Result<void> lookup(const Call& call, const Environment&);
Result<void> linear(const Call& call, const Environment&);
Result<void> head_linear(const Call& call, const Environment&);
Result<void> linear_blocks(const Call& call, const Environment&);
Result<void> add(const Call& call, const Environment&);
Result<void> multiply(const Call& call, const Environment&);
Result<void> join_heads(const Call& call, const Environment&);
Result<void> join_partials(const Call& call, const Environment&);
Result<void> scale(const Call& call, const Environment&);
Result<void> columns(const Call& call, const Environment&);
Result<void> select_rows(const Call& call, const Environment&);
Result<void> first_rows(const Call& call, const Environment&);

// rowwise.cpp
Result<void> cut_off(const Call& call, const Environment&);
Result<void> fake_quantise(const Call& call, const Environment&);
Result<void> take_columns(const Call& call, const Environment&);
Result<void> match_magnitude(const Call& call, const Environment&);
Result<void> weighted_sum(const Call& call, const Environment&);
Result<void> rms_norm(const Call& call, const Environment&);
Result<void> layer_norm(const Call& call, const Environment&);
Result<void> scale_rows(const Call& call, const Environment&);
Result<void> scale_by_position(const Call& call, const Environment&);
Result<void> soft_cap(const Call& call, const Environment&);
Result<void> activation(const Call& call, const Environment&);
Result<void> gated_activation(const Call& call, const Environment&);

// positions.cpp
Result<void> rope(const Call& call, const Environment&);
Result<void> clamp_positions(const Call& call, const Environment&);

// attention.cpp
Result<void> kv_append(const Call& call, const Environment&);
Result<void> attention(const Call& call, const Environment&);

// recurrence.cpp
Result<void> causal_conv(const Call& call, const Environment&);
Result<void> gated_delta_rule(const Call& call, const Environment&);

// experts.cpp
Result<void> moe_route(const Call& call, const Environment&);
Result<void> moe_experts(const Call& call, const Environment&);

// collectives.cpp
Result<void> all_reduce(const Call& call, const Environment&);
Result<void> all_gather(const Call& call, const Environment&);
Result<void> rows_of_owners(const Call& call, const Environment&);
Result<void> agree(const Call& call, const Environment&);

// slots.cpp
Result<void> running_slots(const Call& call, const Environment&);
Result<void> own_slots(const Call& call, const Environment&);
Result<void> mark_seen(const Call& call, const Environment&);
Result<void> advance(const Call& call, const Environment&);
Result<void> sample(const Call& call, const Environment&);
Result<void> accept(const Call& call, const Environment&);
Result<void> score(const Call& call, const Environment&);

}  // namespace lockstep::reference
