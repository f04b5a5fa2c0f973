#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/inspect/explain.h"
#include "tests/model/tiny_models.h"

namespace lockstep::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string explained(const char* config, ExplainCommand command) {
  const model::TinyModel model(config);
  command.model.directory = model.path();
  ::testing::internal::CaptureStdout();
  const auto result = explain(command);
  std::fflush(stdout);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return text;
}

TEST(Explain, ComparesTheSplitsOfExpertsBelowThePartition) {
  const std::string text = explained(model::kTinyMixtral, {.model = {.ranks = 2}, .show = "summary"});
  EXPECT_THAT(text, HasSubstr("experts that the busiest rank reads"));
  EXPECT_LT(text.find("kv heads"), text.find("experts that the busiest"));
  EXPECT_LT(text.find("experts that the busiest"), text.find("after all passes"));
  EXPECT_THAT(explained(model::kTinyLlama, {.show = "summary"}), Not(HasSubstr("expert")));
}

TEST(Explain, NamesTheAttentionKernelOfEachGraph) {
  const std::string text = explained(model::kTinyLlama, {.show = "summary"});
  EXPECT_THAT(text, HasSubstr("prefill attention\n"));
  EXPECT_THAT(text, HasSubstr("decode attention\n"));
}

TEST(Explain, ShowsAGraphForEachBucket) {
  ExplainCommand command{.show = "summary"};
  command.engine.capacity = 64;
  command.engine.token_buckets = "16,32";
  const std::string text = explained(model::kTinyLlama, command);
  size_t graphs = 0;
  for (size_t at = text.find(" attention\n"); at != std::string::npos; at = text.find(" attention\n", at + 1)) ++graphs;
  EXPECT_EQ(graphs, 3u + 3u);
}

TEST(Explain, ShowsWhatTheCpuBackendFusesInEachGraph) {
  ExplainCommand command{.show = "graph", .backend = "cpu"};
  const std::string both = explained(model::kTinyLlama, command);
  EXPECT_THAT(both, HasSubstr("prefill, rank 0 of 1"));
  EXPECT_THAT(both, HasSubstr("decode, rank 0 of 1"));
  EXPECT_THAT(both, HasSubstr("rms_norm → rows of"));
  command.phase = "decode";
  EXPECT_THAT(explained(model::kTinyLlama, command), Not(HasSubstr("prefill")));
}

}  // namespace
}  // namespace lockstep::launcher
