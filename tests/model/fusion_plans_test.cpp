#include <gtest/gtest.h>

#include "runtime/backends/cpu/cpu.h"
#include "tests/model/approved_plans.h"

namespace lockstep::model {
namespace {

TEST(FusionPlans, OfEveryFamilyAreAsApproved) { expect_approved_plans(LOCKSTEP_FUSION_PLANS_DIR, cpu::explain); }

}  // namespace
}  // namespace lockstep::model
