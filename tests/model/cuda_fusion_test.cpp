#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/backends/cuda/explain.h"
#include "tests/model/approved_plans.h"

namespace lockstep::model {
namespace {

TEST(CudaFusionPlans, OfEveryFamilyAreAsApproved) {
  expect_approved_plans(LOCKSTEP_FUSION_PLANS_DIR, [](const graph::Graph& graph) {
    return fmt::format("{}, rank {} of {}, rows {}: {}", graph.name, graph.rank, graph.ranks, graph.rows,
                       cuda::explain_fusion(graph));
  });
}

}  // namespace
}  // namespace lockstep::model
