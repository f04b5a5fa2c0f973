// The sampling states for `sample` and `accept`, made from one rule per slot.
#pragma once

#include <vector>

#include "runtime/sampling/slot.h"
#include "tests/conformance/backend/session.h"

namespace lockstep::conformance {

/// Greedy, without an end token, 100 tokens long, padded with 99.
sampling::SlotRule plain_rule();

/// The states draw_numbers, draw_integers, seed and eos, in the order of the operands; slot s samples by `rules[s]`.
std::vector<graph::ValueId> add_drawing_states(CaseBuilder& b, const std::vector<sampling::SlotRule>& rules);

}  // namespace lockstep::conformance
