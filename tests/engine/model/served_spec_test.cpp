#include "engine/model/served_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/plan.h"
#include "tests/model/tiny_models.h"

namespace lockstep::model {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<checkpoint::ModelSpec> served(const std::string& config, const ModelOptions& options) {
  const TinyModel model(config);
  return served_spec(model.path() / "config.json", options);
}

void expect_refused(const auto& result, ErrorKind kind, const char* found) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, kind);
  EXPECT_THAT(result.error().message, HasSubstr(found));
}

TEST(ServedSpec, IsTheModelsOwnWithoutOptions) {
  const auto spec = served(kTinyLlama, {}).value();
  EXPECT_THAT(spec.windows, IsEmpty());
  EXPECT_EQ(spec.pinned_sinks, 0);
}

TEST(ServedSpec, PutsTheWindowIntoEveryLayer) {
  EXPECT_THAT(served(kTinyLlama, {.window = 12}).value().windows, ElementsAre(12, 12));
  EXPECT_THAT(served(kTinyGpt2, {.window = 12}).value().windows, Each(12));
}

TEST(ServedSpec, PinsSinksWhereThereAreWindows) {
  const auto spec = served(kTinyLlama, {.window = 12, .pinned_sinks = 4}).value();
  EXPECT_EQ(spec.pinned_sinks, 4);
  expect_refused(served(kTinyLlama, {.pinned_sinks = 4}), ErrorKind::kInvalidArgument, "a model with windows");
}

TEST(ServedSpec, PinsSinksOfRotaryModelsOnly) {
  for (const char* config : {kTinyGpt2, kTinyBloom}) {
    expect_refused(served(config, {.window = 12, .pinned_sinks = 4}), ErrorKind::kUnsupported,
                   "--pinned-sinks: found 4, expected a model with rotary positions");
  }
}

constexpr const char* kTinyDeepseek = R"({"model_type": "deepseek_v3", "hidden_size": 32, "num_hidden_layers": 2,
  "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 64, "intermediate_size": 48, "kv_lora_rank": 8,
  "q_lora_rank": null, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 6, "first_k_dense_replace": 1,
  "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1})";

TEST(ServedSpec, PinsNoSinksOfLatentAttention) {
  EXPECT_THAT(served(kTinyDeepseek, {.window = 12}).value().windows, ElementsAre(12, 12));
  expect_refused(served(kTinyDeepseek, {.window = 12, .pinned_sinks = 4}), ErrorKind::kUnsupported,
                 "--pinned-sinks: found 4, expected a model without latent attention");
}

TEST(PlanModels, RefusesLatentAttentionWhereTheBackendLacksIt) {
  const TinyModel folder(kTinyDeepseek);
  const Model model = Model::open(folder.path(), {}).value();
  expect_refused(plan_models(model, {}, 1, {}), ErrorKind::kUnsupported,
                 "cannot run a deepseek_v3: found latent attention, expected a backend that runs it");
  EXPECT_TRUE(plan_models(model, {}, 1, {.latent_attention = true}).has_value());
}

TEST(ServedSpec, KeepsKeysAndValuesIn8Bits) {
  EXPECT_EQ(served(kTinyLlama, {}).value().cache_type, CacheType::kModel);
  const auto spec = served(kTinyLlama, {.kv_dtype = CacheType::kInt8}).value();
  EXPECT_EQ(spec.cache_type, CacheType::kInt8);
  EXPECT_THAT(architecture_line(spec, DType::kBFloat16), HasSubstr("bf16, int8 KV"));
}

TEST(PlanModels, RefusesKeysAndValuesIn8BitsWhereTheBackendLacksThem) {
  const TinyModel folder(kTinyLlama);
  const Model model = Model::open(folder.path(), {.kv_dtype = CacheType::kFp8}).value();
  expect_refused(plan_models(model, {}, 1, {}), ErrorKind::kUnsupported, "--kv-dtype: found fp8, expected a backend");
  const Plan plan = plan_models(model, {}, 1, {.coded_caches = true}).value();
  EXPECT_EQ(plan.model.spec.cache_type, CacheType::kFp8);
}

TEST(ServedSpec, LeavesTheWindowsOfAModelWhoseLayersTurnDifferently) {
  expect_refused(served(kTinyGemma3, {.window = 12}), ErrorKind::kUnsupported, "--window: found 12");
}

/// Plans a tiny model with `weights` for a backend that multiplies by `codes`.
Result<Plan> planned(const char* config, std::string_view weights, device::CodedWeights codes) {
  const TinyModel files(config);
  const Model model = Model::open(files.path(), {.weights = served_format(weights)}).value();
  return plan_models(model, {}, 1, {.coded_weights = codes});
}

TEST(ServedSpec, RefusesFormatsThatTheBackendDoesNotMultiply) {
  using enum device::CodedWeights;
  EXPECT_TRUE(planned(kTinyLlama, "int8:32", kInt8).has_value());
  EXPECT_TRUE(planned(kTinyMixtral, "q4:32", kAll).has_value());
  expect_refused(planned(kTinyLlama, "int8:32", kNone), ErrorKind::kUnsupported, "found int8:32 weights");
  expect_refused(planned(kTinyLlama, "q4:32", kInt8), ErrorKind::kUnsupported, "found q4:32 weights");
  expect_refused(planned(kTinyMixtral, "int8:64", kInt8), ErrorKind::kUnsupported, "found experts in 8 bits");
}

TEST(ServedSpec, ServesMatricesIn8BitsByGroups) {
  EXPECT_FALSE(served(kTinyLlama, {}).value().formats.any());
  const auto spec = served(kTinyLlama, {.weights = served_format("int8:32")}).value();
  EXPECT_EQ(spec.formats.usual, served_format("int8:32"));
  EXPECT_FALSE(spec.formats.table);
  EXPECT_TRUE(served(kTinyLlama, {.weights = served_format("q4:32")}).value().formats.table);
  EXPECT_EQ(weights_in_words(spec), "int8:32");
  EXPECT_THAT(architecture_line(spec, DType::kBFloat16), HasSubstr("bf16, int8:32 weights"));
}

/// `config` as compressed-tensors' W8A8 with activations quantised by token, and as static FP8.
constexpr std::string_view kW8A8 = R"("quantization_config": {
    "quant_method": "compressed-tensors", "format": "int-quantized", "ignore": ["lm_head"], "config_groups": {"group_0": {
      "targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": true},
      "input_activations": {"num_bits": 8, "type": "int", "strategy": "token", "symmetric": true, "dynamic": true}}}}})";
constexpr std::string_view kStaticFp8 =
    R"("quantization_config": {"quant_method": "fp8", "activation_scheme": "static"}})";
/// As compressed-tensors' NVFP4 with inputs in 4 bits, too.
constexpr std::string_view kW4A4 = R"("quantization_config": {
    "quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {"group_0": {
      "targets": ["Linear"],
      "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": true},
      "input_activations": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16,
                            "symmetric": true, "dynamic": "local"}}}}})";

/// Plans the model of `config` with a quantization config.
Result<Plan> planned_with_rounded_inputs(std::string_view config, partition::GqaMode gqa, const ModelOptions& options,
                                         bool rounded_experts = true, std::string_view quantisation = kW8A8) {
  const TinyModel files(fmt::format("{}, {}", config.substr(0, config.rfind('}')), quantisation));
  EngineOptions engine;
  engine.partition.gqa = gqa;
  device::Capabilities backend;
  backend.coded_weights = device::CodedWeights::kAll;
  backend.rounded_experts = rounded_experts;
  return plan_models(Model::open(files.path(), options).value(), engine, /*ranks=*/2, backend);
}

TEST(ServedSpec, RoundsInputsOfProductsAndExperts) {
  using enum partition::GqaMode;
  for (const partition::GqaMode gqa : {kAuto, kAllGather}) {
    EXPECT_TRUE(planned_with_rounded_inputs(kTinyLlama, gqa, {}).has_value());
    const auto plan = planned_with_rounded_inputs(kTinyMixtral, gqa, {});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_EQ(plan.value().model.partition.expert_split, partition::ExpertSplit::kWhole);
  }
}

TEST(ServedSpec, RefusesRoundedInputsThatItCannotShare) {
  using enum partition::GqaMode;
  const ModelOptions unrounded{.activations = ActivationFormat::kElements};
  expect_refused(planned_with_rounded_inputs(kTinyMixtral, kAuto, {}, /*rounded_experts=*/false),
                 ErrorKind::kUnsupported, "found experts whose inputs are rounded, expected a backend");
  EXPECT_TRUE(planned_with_rounded_inputs(kTinyMixtral, kAuto, unrounded, /*rounded_experts=*/false).has_value());
  expect_refused(planned_with_rounded_inputs(kTinyLlama, kAllGather, {}, true, kStaticFp8), ErrorKind::kUnsupported,
                 "--gqa: found all-gather");
  expect_refused(planned_with_rounded_inputs(kTinyMixtral, kAuto, {}, true, kStaticFp8), ErrorKind::kUnsupported,
                 "scales of the files");
}

TEST(ServedSpec, RefusesInputsIn4BitsUnlessTheyAreLeftAsTheyAre) {
  expect_refused(planned_with_rounded_inputs(kTinyLlama, partition::GqaMode::kAuto, {}, true, kW4A4),
                 ErrorKind::kUnsupported,
                 "rounded to floats of 4 bits, expected a backend that multiplies by them; add "
                 "--activations elements");
  const ModelOptions unrounded{.activations = ActivationFormat::kElements};
  EXPECT_TRUE(planned_with_rounded_inputs(kTinyLlama, partition::GqaMode::kAuto, unrounded, true, kW4A4).has_value());
}

TEST(ServedSpec, RefusesGroupsThatMakeNoSense) {
  for (const int64_t group : {int64_t{-1}, int64_t{0}, int64_t{6}, int64_t{2048}}) {
    const MatrixFormat format{.weights = {.bits = 8, .group = group}};
    expect_refused(served(kTinyLlama, {.weights = format}), ErrorKind::kInvalidArgument, "q4, q8 or int8");
  }
}

TEST(ServedSpec, ChangesTheActivationsOfMatricesInCodesOnly) {
  const auto spec =
      served(kTinyLlama, {.weights = served_format("q4:32"), .activations = ActivationFormat::kInt8ByGroup}).value();
  EXPECT_EQ(spec.formats.usual->activations, ActivationFormat::kInt8ByGroup);
  EXPECT_EQ(spec.formats.table->activations, ActivationFormat::kInt8ByGroup);
  expect_refused(served(kTinyLlama, {.activations = ActivationFormat::kInt8ByGroup}), ErrorKind::kInvalidArgument,
                 "--activations: found int8-group, expected weights in codes");
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

TEST(OpenModel, TakesTheFilesTypeUnlessAnotherIsAskedFor) {
  const TinyModel folder(kTinyLlama);
  EXPECT_EQ(Model::open(folder.path()).value().dtype(), DType::kFloat32);
  EXPECT_EQ(Model::open(folder.path(), {.dtype = DType::kBFloat16}).value().dtype(), DType::kBFloat16);
}

TEST(ShardOptions, HaveNoChunkThatNeverFills) {
  EXPECT_EQ(shard_options({.prefill_chunk = 256}, DType::kFloat32, 2, 32).value().chunk, 64);
  EXPECT_EQ(shard_options({.prefill_chunk = 16}, DType::kFloat32, 2, 32).value().chunk, 16);
}

TEST(PlanModels, RefuseAWindowBeyondTheCapacity) {
  const TinyModel folder(kTinyLlama);
  const auto planned = [&](const ModelOptions& options) {
    return plan_models(Model::open(folder.path(), options).value(), {.capacity = 32}, /*ranks=*/1, {});
  };
  EXPECT_TRUE(planned({.window = 32}).has_value());
  expect_refused(planned({.window = 33}), ErrorKind::kInvalidArgument, "--window: found 33, expected at most 32");
  EXPECT_TRUE(planned({.window = 28, .pinned_sinks = 4}).has_value());
  expect_refused(planned({.window = 29, .pinned_sinks = 4}), ErrorKind::kInvalidArgument,
                 "found 29 and --pinned-sinks 4, expected at most 32 together");
}

TEST(PlanModels, RefuseACapacityBeyondTheModelsPositions) {
  const TinyModel folder(kTinyLlama);
  const Model model = Model::open(folder.path()).value();
  EXPECT_EQ(plan_models(model, {}, 1, {}).value().model.shard.capacity, 64);
  expect_refused(plan_models(model, {.capacity = 65}, 1, {}), ErrorKind::kInvalidArgument,
                 "--max-seq-len: found 65, expected at most 64");
}

TEST(PlanModels, GiveLogitsWhereTheHostMayChoose) {
  const TinyModel folder(kTinyLlama);
  const Model model = Model::open(folder.path()).value();
  const auto logits = [&](const EngineOptions& options) {
    return plan_models(model, options, 1, {}).value().model.shard.logits == families::StepShape::Logits::kOutput;
  };
  EXPECT_TRUE(logits({}));
  EXPECT_FALSE(logits({.choosers = Choosers::kNone}));
  EXPECT_FALSE(logits({.drafting = {.tokens = 2, .lookup_ngram = 2}}));
}

TEST(ShardOptions, MakeBucketsUpToTheCapacity) {
  const auto shard = shard_options({.token_buckets = "auto"}, DType::kFloat32, 1, 300).value();
  EXPECT_THAT(shard.token_buckets, ElementsAre(128, 256, 300));
  EXPECT_THAT(shard.context_buckets, ElementsAre(64, 128, 150));
  EXPECT_EQ(shard.chunk, 150);
  EXPECT_THAT(shard_options({.token_buckets = "16,40"}, DType::kFloat32, 1, 64).value().token_buckets,
              ElementsAre(16, 40, 64));
  EXPECT_THAT(shard_options({}, DType::kFloat32, 1, 300).value().token_buckets, IsEmpty());
}

TEST(ShardOptions, TakeChunksAndBatchSizesAsGiven) {
  const EngineOptions lists{.slots = 4, .batch_sizes = {1, 4}, .context_buckets = {32, 100}, .token_buckets = "auto"};
  const auto shard = shard_options(lists, DType::kFloat32, 4, 300).value();
  EXPECT_THAT(shard.batch_sizes, ElementsAre(1, 4));
  EXPECT_THAT(shard.token_buckets, ElementsAre(128, 256, 300));
  EXPECT_THAT(shard.context_buckets, ElementsAre(32, 100));
  EXPECT_EQ(shard.chunk, 100);
  EXPECT_TRUE(shard.validate().has_value());
  const auto small = shard_options({.context_buckets = {8, 64, 128}}, DType::kFloat32, 1, 20).value();
  EXPECT_THAT(small.context_buckets, ElementsAre(8, 20));  // no step has more rows than the slots
  const auto alone = shard_options({.context_buckets = {0}}, DType::kFloat32, 1, 20).value();
  EXPECT_THAT(alone.context_buckets, IsEmpty());
  EXPECT_EQ(alone.chunk, 1);  // token by token
}

TEST(ShardOptions, RefuseBucketsThatMakeNoSense) {
  for (const char* buckets : {"", "some", "16,16", "32,16", "16,65", "0"}) {
    expect_refused(shard_options({.token_buckets = buckets}, DType::kFloat32, 1, 64), ErrorKind::kInvalidArgument,
                   "length buckets");
  }
}

}  // namespace
}  // namespace lockstep::model
