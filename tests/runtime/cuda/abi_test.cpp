// runtime/cuda/abi.h against the declarations of cuda.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/cuda/status.h"
#include "tests/runtime/cuda/abi_facts.h"

namespace lockstep::cu {
namespace {

TEST(CudaAbi, IsThatOfCudaH) {
  const std::vector<AbiFact> ours = facts_of_abi_h();
  const std::vector<AbiFact> theirs = facts_of_cuda_h();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].name, theirs[i].name);
    EXPECT_EQ(ours[i].values, theirs[i].values) << ours[i].name;
  }
}

TEST(CudaAbi, HasAMeaningForEachCode) {
  const std::vector<AbiFact> facts = facts_of_cuda_h();
  for (const StatusMeaning& meaning : status_meanings()) {
    const AbiFact expected{std::string(meaning.name), {static_cast<long long>(meaning.status)}};
    EXPECT_NE(std::find(facts.begin(), facts.end(), expected), facts.end()) << meaning.name;
  }
  const auto codes = std::count_if(facts.begin(), facts.end(),
                                   [](const AbiFact& fact) { return fact.name.starts_with("CUDA_ERROR_"); });
  EXPECT_EQ(codes, std::ssize(status_meanings()));
}

}  // namespace
}  // namespace lockstep::cu
