// What a backend fuses of each family's steps, compared with approved texts. One layer, a decode step of one row and a
// prefill chunk, on one rank and on the first of two. LOCKSTEP_WRITE_GOLDENS=1 in the environment writes them.
#pragma once

#include <functional>
#include <string>

#include "runtime/graph/graph.h"

namespace lockstep::model {

/// Expects the texts of every family to be those of `folder`, one file a family.
void expect_approved_plans(const std::string& folder, const std::function<std::string(const graph::Graph&)>& text_of);

}  // namespace lockstep::model
