// Groups of ranks on the backend for GPUs, over the stand-in of its driver.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <tuple>

#include "tests/model/golden.h"
#include "tests/model/model_group.h"

namespace lockstep::model {

/// LOCKSTEP_GOLDENS, where the sources are not at hand.
std::filesystem::path goldens_folder();

/// `options` for ranks that share the stand-in's GPU.
GroupOptions on_stand_in(GroupOptions options);

/// The parameters of a golden's tests, and their name: "llama_grouped_tp2".
using ModelAndRanks = std::tuple<std::string, int>;
std::string name_of(const ::testing::TestParamInfo<ModelAndRanks>& tested);

/// Expects the golden's tokens and logits from ranks on the stand-in.
void expect_golden_on_stand_in(const Golden& golden, GroupOptions options);

}  // namespace lockstep::model
