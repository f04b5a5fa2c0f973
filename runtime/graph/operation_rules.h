// Rules of single operations beyond the type patterns. Private to this folder.
#pragma once

#include "runtime/graph/operations.h"

namespace lockstep::graph {

Result<void> check_embedding(OperationUse& use);
Result<void> check_linear(OperationUse& use);
Result<void> check_linear_blocks(OperationUse& use);
Result<void> check_head_linear(OperationUse& use);
Result<void> check_all_reduce(OperationUse& use);
Result<void> check_all_gather(OperationUse& use);
Result<void> check_first_rows(OperationUse& use);
Result<void> check_columns(OperationUse& use);
Result<void> check_join_partials(OperationUse& use);
Result<void> check_join_heads(OperationUse& use);
Result<void> check_lookup(OperationUse& use);
Result<void> check_match_magnitude(OperationUse& use);
Result<void> check_weighted_sum(OperationUse& use);
Result<void> check_fake_quantise(OperationUse& use);
Result<void> check_multiply(OperationUse& use);
Result<void> check_rms_norm(OperationUse& use);
Result<void> check_layer_norm(OperationUse& use);
Result<void> check_rope(OperationUse& use);
Result<void> check_clamp_positions(OperationUse& use);
Result<void> check_own_slots(OperationUse& use);
Result<void> check_rows_of_owners(OperationUse& use);
Result<void> check_kv_append(OperationUse& use);
Result<void> check_attention(OperationUse& use);
Result<void> check_causal_conv(OperationUse& use);
Result<void> check_gated_delta_rule(OperationUse& use);
Result<void> check_activation(OperationUse& use);
Result<void> check_gated_activation(OperationUse& use);
Result<void> check_scale_by_position(OperationUse& use);
Result<void> check_soft_cap(OperationUse& use);
Result<void> check_moe_route(OperationUse& use);
Result<void> check_moe_experts(OperationUse& use);
Result<void> check_accept(OperationUse& use);
Result<void> check_score(OperationUse& use);

}  // namespace lockstep::graph
