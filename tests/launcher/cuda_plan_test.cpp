// Plans for GPUs by what NVIDIA publishes: memory as the backend takes it, speeds and links by the data sheets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/drivers.h"
#include "launcher/measure/plan/plan.h"

namespace lockstep::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class PlanOfGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!engine::find_driver("cuda").has_value()) GTEST_SKIP() << "a build without cuda";
    command_.engine.backend = "cuda";
    command_.json = std::filesystem::path(::testing::TempDir()) / "cuda_plan.json";
  }

  Json planned(const char* shape) {
    command_.config = std::filesystem::path(LOCKSTEP_SHAPES_DIR) / shape;
    ::testing::internal::CaptureStdout();
    const Result<void> done = lockstep::launcher::plan(command_);
    std::fflush(stdout);
    text_ = ::testing::internal::GetCapturedStdout();
    EXPECT_TRUE(done.has_value()) << done.error().message;
    return done.has_value() ? Json::parse(std::ifstream(*command_.json)) : Json();
  }

  PlanCommand command_;
  std::string text_;
};

TEST_F(PlanOfGpus, TakesAnH100WithoutBeingAsked) {
  command_.max_tp = 1;
  const Json plan = planned("llama-3.1-8b.json");
  EXPECT_EQ(plan["device"], "h100");
  EXPECT_EQ(plan["device_kind"], nullptr);
  EXPECT_EQ(plan["neuron_target"], nullptr);
  EXPECT_EQ(plan["machine"]["rank"]["read_bytes_per_s"], 3.35e12);
  EXPECT_EQ(plan["machine"]["rank"]["flops_per_s"], 989.5e12);
  // 32 layers of 218 million weights, the head, and a table of which one row is read.
  constexpr double kLayer = 4096.0 * (2 * 4096 + 2 * 1024) + 3 * 4096.0 * 14336 + 2 * 4096;
  constexpr double kTable = 128256.0 * 4096;
  const Json& step = plan["degrees"][0]["predicted"]["decode_step"];
  EXPECT_NEAR(step["weights_s"].get<double>(), 2 * (32 * kLayer + kTable + 2 * 4096) / 3.35e12, 1e-9);
  const Json& memory = plan["degrees"][0]["memory"];
  EXPECT_NEAR(memory["weights"].get<double>(), 2 * (32 * kLayer + 2 * kTable), 1e6);
  EXPECT_EQ(memory["cache"], 2 * 32 * 8 * 128 * 2 * int64_t{2048});  // a slot of 2048 tokens
  EXPECT_EQ(memory["slots"], 0);                                     // on the host
  EXPECT_THAT(text_, AllOf(HasSubstr("a rank's device: 3350 GB/s and 989500 GFLOP/s, published"),
                           HasSubstr("450 GB/s (published)"), HasSubstr("NVIDIA H100 data sheet")));
}

TEST_F(PlanOfGpus, CountsLinksBetweenHostsBeyondEightGpus) {
  command_.engine.backend_options = {{"device-kind", "h200"}};
  command_.max_tp = 9;
  const Json plan = planned("llama-3.2-1b.json");
  EXPECT_EQ(plan["device_kind"], "h200");
  EXPECT_EQ(plan["machine"]["ranks_per_host"], 8);
  EXPECT_EQ(plan["machine"]["between_hosts"][0]["bytes_per_s"], 50e9);
  const auto communication = [&](int ranks) {
    return plan["degrees"][ranks - 1]["predicted"]["decode_step"]["communication_s"].get<double>();
  };
  // 32 sums and a few more exchanges, each with a round of 10 us between two hosts.
  EXPECT_GT(communication(9), communication(8) + 32 * 10e-6);
  EXPECT_THAT(text_, HasSubstr("between hosts of 8 ranks: 10 us (assumed) and 50 GB/s (published)"));
}

TEST_F(PlanOfGpus, SaysHowToFitAGpu) {
  command_.engine.backend_options = {{"device-kind", "a100-40"}};
  command_.engine.slots = 64;
  command_.engine.capacity = 8192;
  command_.max_tp = 1;
  const Json plan = planned("llama-3.1-8b.json");
  EXPECT_EQ(plan["degrees"][0]["fits"], false);
  EXPECT_THAT(plan["degrees"][0]["how_to_fit"].get<std::string>(),
              AllOf(HasSubstr("--max-seq-len"), HasSubstr("--batch-size"), HasSubstr("more ranks")));
  EXPECT_THAT(text_, HasSubstr("compiled for compute capability 9.0, not 8.0"));
}

TEST_F(PlanOfGpus, TakesGivenNumbersInsteadOfPublishedOnes) {
  command_.max_tp = 1;
  command_.machine.bandwidth = 3000;
  command_.machine.host_link_latency_us = 25;
  const Json plan = planned("llama-3.2-1b.json");
  EXPECT_EQ(plan["machine"]["rank"]["read_bytes_per_s"], 3e12);
  EXPECT_EQ(plan["machine"]["rank"]["flops_per_s"], 989.5e12);
  EXPECT_DOUBLE_EQ(plan["machine"]["between_hosts"][0]["latency_s"], 25e-6);
}

TEST_F(PlanOfGpus, RefusesDevicesOfTwoKinds) {
  if (!engine::find_driver("neuron").has_value()) GTEST_SKIP() << "a build without neuron";
  command_.engine.backend_options = {{"neuron-target", "trn1"}};
  command_.config = std::filesystem::path(LOCKSTEP_SHAPES_DIR) / "llama-3.2-1b.json";
  const Result<void> refused = lockstep::launcher::plan(command_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("found devices of neuron and of cuda"));
}

}  // namespace
}  // namespace lockstep::launcher
