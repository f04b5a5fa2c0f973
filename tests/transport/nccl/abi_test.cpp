// transport/nccl/abi.h against the declarations of nccl.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/transport/nccl/abi_facts.h"
#include "transport/nccl/nccl_status.h"

namespace lockstep::transport::nccl {
namespace {

TEST(NcclAbi, IsThatOfNcclH) {
  const std::vector<AbiFact> ours = facts_of_abi_h();
  const std::vector<AbiFact> theirs = facts_of_nccl_h();
  if (theirs.empty()) GTEST_SKIP() << "nccl.h is not installed";
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].name, theirs[i].name);
    EXPECT_EQ(ours[i].values, theirs[i].values) << ours[i].name;
  }
}

TEST(NcclAbi, HasAMeaningForEachCode) {
  const std::vector<AbiFact> facts = facts_of_abi_h();
  for (int code = ncclUnhandledCudaError; code <= ncclRemoteError; ++code) {
    EXPECT_EQ(std::ranges::count(result_meanings(), code, &ResultMeaning::result), 1) << code;
  }
  for (const ResultMeaning& meaning : result_meanings()) {
    const AbiFact expected{std::string(meaning.name), {static_cast<long long>(meaning.result)}};
    EXPECT_NE(std::ranges::find(facts, expected), facts.end()) << meaning.name;
  }
}

}  // namespace
}  // namespace lockstep::transport::nccl
