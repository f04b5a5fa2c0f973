// Pinned plans for Neuron of models whose heads do not divide evenly: memory with padding, recommended degrees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/drivers.h"
#include "launcher/measure/plan/plan.h"

namespace lockstep::launcher {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

/// What a plan for trn1 says of one degree: bytes of a rank, the same of all since devices pad ranks alike.
struct PinnedDegree {
  int ranks = 1;
  int64_t weights = 0, cache = 0;

  friend bool operator==(const PinnedDegree&, const PinnedDegree&) = default;
  friend void PrintTo(const PinnedDegree& degree, std::ostream* out) {
    *out << degree.ranks << " ranks of " << degree.weights << " + " << degree.cache;
  }
};

struct PinnedModel {
  const char* shape;
  std::vector<PinnedDegree> degrees;
  int best = 1;
};

/// The models of the Neuron documents whose heads do not divide evenly.
class PlanOfNeuronModels : public ::testing::TestWithParam<PinnedModel> {};

TEST_P(PlanOfNeuronModels, CountsThePaddingAndRecommendsEvenDegrees) {
  if (!engine::find_driver("neuron").has_value()) GTEST_SKIP() << "a build without neuron";
  PlanCommand command;
  command.config = std::filesystem::path(LOCKSTEP_SHAPES_DIR) / GetParam().shape;
  command.engine.backend_options = {{"neuron-target", "trn1"}};
  command.max_tp = 32;
  command.json = std::filesystem::path(::testing::TempDir()) / "neuron_plan.json";
  ::testing::internal::CaptureStdout();
  const Result<void> planned = lockstep::launcher::plan(command);
  const std::string text = ::testing::internal::GetCapturedStdout();
  ASSERT_TRUE(planned.has_value()) << planned.error().message;
  const Json plan = Json::parse(std::ifstream(*command.json));
  std::vector<PinnedDegree> degrees;
  for (const Json& degree : plan["degrees"]) {
    if (degree["works"] == true) {
      degrees.push_back({degree["degree"], degree["memory"]["weights"], degree["memory"]["cache"]});
    }
  }
  EXPECT_EQ(degrees, GetParam().degrees);
  EXPECT_EQ(plan["best"]["degree"], GetParam().best);
  EXPECT_THAT(text, HasSubstr("of its weights' memory is padding"));
}

// Bytes as the lowered graphs hold them; heads, MLP columns and vocabulary of every rank as large as the largest's.
INSTANTIATE_TEST_SUITE_P(Trn1, PlanOfNeuronModels,
                         ::testing::Values(PinnedModel{"gpt2-xl.json",
                                                       {{1, 3115222400, 314880000},
                                                        {2, 1608855296, 163737600},
                                                        {8, 456966400, 50380800},
                                                        {16, 301824768, 25190400}},
                                                       2},
                                           PinnedModel{"opt-13b.json",
                                                       {{1, 25706946560, 1678540800},
                                                        {2, 12865372160, 839270400},
                                                        {8, 3234109440, 209817600},
                                                        {16, 2028881920, 125890560},
                                                        {32, 1314344960, 83927040}},
                                                       8},
                                           PinnedModel{"opt-30b.json",
                                                       {{1, 59949080576, 2819948544},
                                                        {2, 29991542784, 1409974272},
                                                        {8, 7523274752, 352493568},
                                                        {16, 4428648448, 201424896},
                                                        {32, 2920005632, 100712448}},
                                                       8}),
                         [](const auto& model) {
                           std::string name = std::filesystem::path(model.param.shape).stem();
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep::launcher
