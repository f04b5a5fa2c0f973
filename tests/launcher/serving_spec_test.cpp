#include "launcher/ranks/serving_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/tiny_models.h"

namespace lockstep::launcher {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<checkpoint::ModelSpec> served(const std::string& config, const ModelOptions& options) {
  const TinyModel model(config);
  return serving_spec(options, model.path() / "config.json");
}

void expect_refused(const auto& result, ErrorKind kind, const char* found) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, kind);
  EXPECT_THAT(result.error().message, HasSubstr(found));
}

TEST(ServingSpec, IsTheModelsOwnWithoutOptions) {
  const auto spec = served(kTinyLlama, {}).value();
  EXPECT_THAT(spec.windows, IsEmpty());
  EXPECT_EQ(spec.pinned_sinks, 0);
}

TEST(ServingSpec, PutsTheWindowIntoEveryLayer) {
  EXPECT_THAT(served(kTinyLlama, {.window = 12}).value().windows, ElementsAre(12, 12));
  EXPECT_THAT(served(kTinyGpt2, {.window = 12}).value().windows, Each(12));
}

TEST(ServingSpec, PinsSinksWhereThereAreWindows) {
  const auto spec = served(kTinyLlama, {.window = 12, .pinned_sinks = 4}).value();
  EXPECT_EQ(spec.pinned_sinks, 4);
  expect_refused(served(kTinyLlama, {.pinned_sinks = 4}), ErrorKind::kInvalidArgument, "a model with windows");
}

TEST(ServingSpec, PinsSinksOfRotaryModelsOnly) {
  for (const char* config : {kTinyGpt2, kTinyBloom}) {
    expect_refused(served(config, {.window = 12, .pinned_sinks = 4}), ErrorKind::kUnsupported,
                   "--pinned-sinks: found 4, expected a model with rotary positions");
  }
}

TEST(ServingSpec, LeavesTheWindowsOfAModelWhoseLayersTurnDifferently) {
  expect_refused(served(kTinyGemma3, {.window = 12}), ErrorKind::kUnsupported, "--window: found 12");
}

TEST(ServingSpec, ServesMatricesIn8BitsByGroups) {
  EXPECT_EQ(served(kTinyLlama, {}).value().int8_group, 0);
  EXPECT_EQ(served(kTinyLlama, {.weights = "int8"}).value().int8_group, 64);
  const auto spec = served(kTinyLlama, {.weights = "int8:32"}).value();
  EXPECT_EQ(spec.int8_group, 32);
  EXPECT_EQ(weights_in_words(spec), "int8:32");
  EXPECT_THAT(architecture_line(spec, DType::kBFloat16), HasSubstr("bf16, int8:32 weights"));
  EXPECT_EQ(precision_of(spec, DType::kBFloat16), probe::Precision::kInt8);
}

TEST(ServingSpec, RefusesWeightsThatMakeNoSense) {
  for (const char* weights : {"", "int4", "int8:", "int8:6", "int8:0", "int8:2048", "int8:32x"}) {
    expect_refused(served(kTinyLlama, {.weights = weights}), ErrorKind::kInvalidArgument,
                   "expected int8 or int8:GROUP");
  }
}

TEST(ServingSpec, RefusesExpertsIn8Bits) {
  expect_refused(served(kTinyMixtral, {.weights = "int8"}), ErrorKind::kUnsupported,
                 "expected a model without experts");
}

TEST(LongestSequence, EndsWhereThePositionsEnd) {
  EXPECT_EQ(longest_sequence(served(kTinyLlama, {}).value()), 64);
  EXPECT_EQ(longest_sequence(served(kTinyLlama, {.window = 12}).value()), 64);
  EXPECT_EQ(longest_sequence(served(kTinyGpt2, {}).value()), 64);
  EXPECT_EQ(longest_sequence(served(kTinyBloom, {}).value()), std::nullopt);
  EXPECT_EQ(longest_sequence(served(kTinyLlama, {.window = 12, .pinned_sinks = 4}).value()), std::nullopt);
}

TEST(LongestSequence, EndsWhereOneLayerSeesEverything) {
  const auto spec = served(kTinyGemma3, {.pinned_sinks = 4}).value();
  EXPECT_EQ(longest_sequence(spec), spec.max_positions);
}

checkpoint::ModelSpec llama() { return checkpoint::parse_spec(kTinyLlama, "tiny").value(); }

TEST(ShardOptions, TakeTheModelsTypeUnlessAnotherIsAskedFor) {
  EXPECT_EQ(shard_options({}, llama(), 2, 32).value().dtype, DType::kFloat32);
  EXPECT_EQ(shard_options({.dtype = "bfloat16"}, llama(), 2, 32).value().dtype, DType::kBFloat16);
}

TEST(ShardOptions, HaveNoChunkThatNeverFills) {
  EXPECT_EQ(shard_options({.prefill_chunk = 256}, llama(), 2, 32).value().chunk, 64);
  EXPECT_EQ(shard_options({.prefill_chunk = 16}, llama(), 2, 32).value().chunk, 16);
}

TEST(ShardOptions, RefuseAWindowBeyondTheCapacity) {
  EXPECT_TRUE(shard_options({.window = 32}, llama(), 1, 32).has_value());
  expect_refused(shard_options({.window = 33}, llama(), 1, 32), ErrorKind::kInvalidArgument,
                 "--window: found 33, expected at most 32");
  EXPECT_TRUE(shard_options({.window = 28, .pinned_sinks = 4}, llama(), 1, 32).has_value());
  expect_refused(shard_options({.window = 29, .pinned_sinks = 4}, llama(), 1, 32), ErrorKind::kInvalidArgument,
                 "found 29 and --pinned-sinks 4, expected at most 32 together");
}

TEST(ShardOptions, MakeBucketsUpToTheCapacity) {
  const auto shard = shard_options({.buckets = "auto"}, llama(), 1, 300).value();
  EXPECT_THAT(shard.token_buckets, ElementsAre(128, 256, 300));
  EXPECT_THAT(shard.context_buckets, ElementsAre(64, 128, 150));
  EXPECT_EQ(shard.chunk, 150);
  EXPECT_THAT(shard_options({.buckets = "16,40"}, llama(), 1, 64).value().token_buckets, ElementsAre(16, 40, 64));
  EXPECT_THAT(shard_options({}, llama(), 1, 300).value().token_buckets, IsEmpty());
}

TEST(ShardOptions, TakeChunksAndBatchSizesAsGiven) {
  const ModelOptions lists{.batch_size = 4, .batch_sizes = {1, 4}, .buckets = "auto", .context_buckets = {32, 100}};
  const auto shard = shard_options(lists, llama(), 4, 300).value();
  EXPECT_THAT(shard.batch_sizes, ElementsAre(1, 4));
  EXPECT_THAT(shard.token_buckets, ElementsAre(128, 256, 300));
  EXPECT_THAT(shard.context_buckets, ElementsAre(32, 100));
  EXPECT_EQ(shard.chunk, 100);
  EXPECT_TRUE(shard.validate().has_value());
  const auto small = shard_options({.context_buckets = {8, 64, 128}}, llama(), 1, 20).value();
  EXPECT_THAT(small.context_buckets, ElementsAre(8, 20));  // no step has more rows than the slots
  const auto alone = shard_options({.context_buckets = {0}}, llama(), 1, 20).value();
  EXPECT_THAT(alone.context_buckets, IsEmpty());
  EXPECT_EQ(alone.chunk, 1);  // token by token
}

TEST(ShardOptions, RefuseBucketsThatMakeNoSense) {
  for (const char* buckets : {"", "some", "16,16", "32,16", "16,65", "0"}) {
    expect_refused(shard_options({.buckets = buckets}, llama(), 1, 64), ErrorKind::kInvalidArgument, "length buckets");
  }
}

}  // namespace
}  // namespace lockstep::launcher
