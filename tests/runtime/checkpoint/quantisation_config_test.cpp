// Configs of quantised checkpoints: which matrices have which format, and what is refused.
#include "runtime/checkpoint/quantisation_config.h"

#include "tests/runtime/checkpoint/spec_testing.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kDown = "model.layers.1.mlp.down_proj.weight",
                           kQuery = "model.layers.0.self_attn.q_proj.weight", kHead = "lm_head.weight";

json quantised(const json& quantisation, const std::string& model_type = "llama") {
  return with(small(model_type), {{"torch_dtype", "bfloat16"}, {"quantization_config", quantisation}});
}

WeightFormats formats_of(const json& quantisation, const std::string& model_type = "llama") {
  const auto spec = parse(quantised(quantisation, model_type));
  EXPECT_TRUE(spec.has_value()) << spec.error().message;
  return spec.has_value() ? spec.value().formats : WeightFormats();
}

/// The format of a matrix in words.
std::string format_of(const WeightFormats& formats, std::string_view name) {
  const auto format = formats.of(name);
  return format ? to_string(*format) : "none";
}

std::string usual_of(const json& quantisation) { return format_of(formats_of(quantisation), kQuery); }

struct QuantisationRefusal {
  json keys;
  ErrorKind kind;
  std::string message;
};

/// Changes to the object of `quantisation` that are refused.
void expect_refused(const json& quantisation, const std::vector<QuantisationRefusal>& refusals) {
  for (const auto& [keys, kind, message] : refusals) {
    const auto spec = parse(quantised(with(quantisation, keys)));
    ASSERT_FALSE(spec.has_value()) << keys;
    EXPECT_EQ(spec.error().kind, kind) << keys;
    EXPECT_THAT(spec.error().message, HasSubstr(message)) << keys;
    EXPECT_THAT(spec.error().message, HasSubstr("config.json: quantization_config")) << keys;
  }
}

// ---- the value ----

TEST(WeightFormats, HaveAUsualFormatAndExceptions) {
  const MatrixFormat four{.weights = {.bits = 4, .group = 32}}, eight{.weights = {.bits = 8, .group = 32}};
  const WeightFormats formats = compact_formats({{"lm_head.weight", std::nullopt},
                                                 {"model.layers.0.mlp.down_proj.weight", eight},
                                                 {"model.layers.0.mlp.gate_proj.weight", four},
                                                 {"model.layers.0.mlp.up_proj.weight", four}});
  EXPECT_EQ(formats.usual, four);
  EXPECT_THAT(formats.exceptions, ElementsAre(FormatException{"lm_head.weight", std::nullopt},
                                              FormatException{"model.layers.0.mlp.down_proj.weight", eight}));
  EXPECT_EQ(formats.of("model.layers.0.mlp.up_proj.weight"), four);
  EXPECT_EQ(formats.of("model.layers.0.mlp.down_proj.weight"), eight);
  EXPECT_EQ(formats.of("lm_head.weight"), std::nullopt);
}

TEST(WeightFormats, AreOfMatricesThatProductsReadInCodes) {
  const WeightFormats formats{.usual = MatrixFormat{}};
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.mlp.router.weight",
        "model.layers.0.mlp.shared_expert_gate.weight", "model.layers.0.self_attn.latent_key_proj.weight",
        "model.layers.0.linear_attn.a_proj.weight", "model.layers.0.self_attn.q_proj.bias"}) {
    EXPECT_FALSE(formats.of(name)) << name;
  }
  for (const char* name : {"lm_head.weight", "model.layers.0.mlp.experts.7.gate_proj.weight",
                           "model.layers.0.self_attn.kv_a_proj.weight", "model.layers.0.linear_attn.z_proj.weight"}) {
    EXPECT_TRUE(formats.of(name)) << name;
  }
}

TEST(WeightFormats, AreOneLineInTheTextThatRanksCompare) {
  WeightFormats formats =
      compact_formats({{"lm_head.weight", std::nullopt}, {"a", MatrixFormat{}}, {"b", MatrixFormat{}}});
  EXPECT_EQ(fields_to_text(formats), "usual q4g32\ntable none\nexceptions [lm_head.weight: none]\n");
  formats.usual->activations = ActivationFormat::kInt8ByToken;
  formats.usual->ordered = true;
  EXPECT_THAT(fields_to_text(formats), HasSubstr("usual q4g32 int8-token ordered\n"));
}

TEST(MatrixFormat, HasGroupsOfAtMostAWholeRow) {
  MatrixFormat format{.weights = {.bits = 8, .group = MatrixFormat::kWholeRow}};
  EXPECT_EQ(format.of_columns(96).group, 96);
  format.weights.group = 128;
  EXPECT_EQ(format.of_columns(96).group, 96);
  EXPECT_EQ(format.of_columns(512).group, 128);
}

// ---- GPTQ ----

const json kGptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}, {"sym", true}, {"desc_act", false}};

TEST(ReadGptq, QuantisesAllExceptTheHead) {
  const WeightFormats formats = formats_of(kGptq);
  EXPECT_EQ(format_of(formats, kQuery), "q4g32.f16");
  EXPECT_EQ(format_of(formats, kDown), "q4g32.f16");
  EXPECT_THAT(formats.exceptions, ElementsAre(FormatException{"lm_head.weight", std::nullopt}));
  EXPECT_EQ(format_of(formats_of(with(kGptq, {{"lm_head", true}})), kHead), "q4g32.f16");
}

TEST(ReadGptq, LeavesAHeadThatIsTheEmbedding) {
  const auto spec = parse(with(quantised(kGptq), {{"tie_word_embeddings", true}}));
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(format_of(spec.value().formats, kHead), "none");
}

TEST(ReadGptq, HasZerosUnlessSymmetricAndAnOrderWithActOrder) {
  EXPECT_EQ(usual_of(with(kGptq, {{"sym", false}, {"bits", 8}})), "q8g32z.f16");
  EXPECT_EQ(usual_of(with(kGptq, {{"desc_act", true}, {"group_size", -1}})), "q4g0.f16 ordered");
}

TEST(ReadGptq, LeavesModulesOutOrChangesThemByItsRules) {
  const json rules = {{"dynamic",
                       {{"-:.*\\.0\\.self_attn\\.", json::object()},
                        {"+:.*\\.down_proj", {{"bits", 8}, {"group_size", 16}}},
                        {".*up_proj", {{"sym", false}}}}}};
  const WeightFormats formats = formats_of(with(kGptq, rules));
  EXPECT_EQ(format_of(formats, kQuery), "none");
  EXPECT_EQ(format_of(formats, "model.layers.1.self_attn.q_proj.weight"), "q4g32.f16");
  EXPECT_EQ(format_of(formats, kDown), "q8g16.f16");
  EXPECT_EQ(format_of(formats, "model.layers.0.mlp.up_proj.weight"), "q4g32z.f16");
}

TEST(ReadGptq, TakesTheFirstRuleOfTheTextThatMatches) {
  json config = quantised(kGptq);
  config["quantization_config"]["dynamic"] = "RULES";
  for (const auto& [rules, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"({"z.*": {}, ".*down.*": {"bits": 8}, ".*": {"group_size": 8}})", "q8g32.f16"},
           {R"({"z.*": {}, ".*": {"group_size": 8}, ".*down.*": {"bits": 8}})", "q4g8.f16"}}) {
    std::string text = config.dump();
    text.replace(text.find("\"RULES\""), 7, rules);
    const auto spec = parse_spec(text, "config.json");
    ASSERT_TRUE(spec.has_value()) << spec.error().message;
    EXPECT_EQ(format_of(spec.value().formats, kDown), expected) << rules;
  }
}

TEST(ReadGptq, QuantisesOnlyTheModulesOfAListIfThereIsOne) {
  const json list = {{"modules_in_block_to_quantize", {{"mlp.down_proj"}, {"self_attn.k_proj", "self_attn.v_proj"}}}};
  const WeightFormats formats = formats_of(with(kGptq, list));
  EXPECT_EQ(format_of(formats, kDown), "q4g32.f16");
  EXPECT_EQ(format_of(formats, kQuery), "none");
}

TEST(ReadGptq, MatchesTheNamesOfTheFiles) {
  const json rules = {{"dynamic", {{"-:.*qkv_proj", json::object()}, {"+:.*gate_up_proj", {{"bits", 8}}}}}};
  const auto spec = parse(quantised(with(kGptq, rules), "phi3"));
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(format_of(spec.value().formats, "model.layers.1.self_attn.v_proj.weight"), "none");
  EXPECT_EQ(format_of(spec.value().formats, "model.layers.1.mlp.gate_proj.weight"), "q8g32.f16");
}

TEST(ReadGptq, RefusesWhatItCannotRead) {
  expect_refused(kGptq, {{{{"bits", 3}}, kUnsupported, "bits: found 3, expected 4 or 8 bits"},
                         {{{"bits", nullptr}}, kInvalid, "bits: found null"},
                         {{{"group_size", 0}}, kInvalid, "group_size: found 0"},
                         {{{"checkpoint_format", "marlin"}}, kUnsupported, "found \"marlin\", expected \"gptq\""},
                         {{{"is_marlin_format", true}}, kUnsupported, "is_marlin_format: found true"},
                         {{{"pack_dtype", "int64"}}, kUnsupported, "pack_dtype: found int64"},
                         {{{"rotation", "hadamard"}}, kUnsupported, "rotation: found \"hadamard\""},
                         {{{"dynamic", 3}}, kInvalid, "dynamic: found 3"},
                         {{{"dynamic", {{"(", {{"bits", 8}}}}}}, kUnsupported, "\"(\" that is malformed at byte 1"},
                         {{{"dynamic", {{".*", {{"bits", 2}}}}}}, kUnsupported, "bits: found 2"},
                         {{{"dynamic", {{"+:.*", 7}}}}, kInvalid, "dynamic: found"},
                         {{{"dynamic", {{"(a|aa)*c", json::object()}, {"((\\w|\\.)*)*\\d\\d\\d", json::object()}}}},
                          kUnsupported,
                          "that backtracks too much on"}});
}

// ---- AWQ ----

const json kAwq = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}, {"zero_point", true}, {"version", "gemm"}};

TEST(ReadAwq, HasZerosAndLeavesTheNamedModules) {
  const WeightFormats formats = formats_of(with(kAwq, {{"modules_to_not_convert", {"layers.0", "mlp.down"}}}));
  EXPECT_EQ(format_of(formats, kQuery), "none");
  EXPECT_EQ(format_of(formats, kDown), "q4g32z.f16") << "mlp.down is no component of the name";
  EXPECT_EQ(format_of(formats, kHead), "none");
  EXPECT_EQ(usual_of(with(kAwq, {{"zero_point", false}})), "q4g32.f16");
}

TEST(ReadAwq, RefusesWhatItCannotRead) {
  expect_refused(kAwq, {{{{"version", "gemv"}}, kUnsupported, "version: found \"gemv\", expected \"gemm\""},
                        {{{"bits", 8}}, kUnsupported, "bits: found 8, expected 4 bits"},
                        {{{"modules_to_not_convert", "gate"}}, kInvalid, "modules_to_not_convert: found \"gate\""},
                        {{{"modules_to_not_convert", {1}}}, kInvalid, "modules_to_not_convert: found an array"}});
}

// ---- FP8 ----

const json kFp8 = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};

TEST(ReadFp8, HasBlocksOrOneScale) {
  EXPECT_EQ(usual_of(kFp8), "e4m3g128 e4m3-group");
  EXPECT_EQ(usual_of({{"quant_method", "fp8"}}), "e4m3g0 e4m3-token");
  EXPECT_EQ(usual_of({{"quant_method", "fp8"}, {"activation_scheme", "static"}}), "e4m3g0 e4m3-tensor");
}

TEST(ReadFp8, LeavesTheNamedModules) {
  for (const char* key : {"modules_to_not_convert", "ignored_layers"}) {
    const WeightFormats formats =
        formats_of(with(kFp8, {{key, {"model.layers.0.self_attn", "layers\\..*\\.mlp\\.down_proj"}}}));
    EXPECT_EQ(format_of(formats, kQuery), "none");
    EXPECT_EQ(format_of(formats, kDown), "e4m3g128 e4m3-group") << "an expression begins at the start of the name";
    EXPECT_EQ(format_of(formats, kHead), "none");
  }
  EXPECT_EQ(format_of(formats_of(with(kFp8, {{"modules_to_not_convert", {"model.layers.*.mlp.down_proj"}}})), kDown),
            "none");
}

TEST(ReadFp8, RefusesWhatItCannotRead) {
  expect_refused(kFp8,
                 {{{{"weight_block_size", {128}}}, kInvalid, "weight_block_size: found an array of 1"},
                  {{{"weight_block_size", {64, 64}}}, kUnsupported, "found [64,64], expected blocks of 128 columns"},
                  {{{"activation_scheme", "static"}}, kUnsupported, "weight_block_size: found [128,128]"},
                  {{{"activation_scheme", "never"}}, kInvalid, "activation_scheme: found \"never\""},
                  {{{"expert_dtype", "fp4"}}, kUnsupported, "expert_dtype: found \"fp4\""},
                  {{{"modules_to_convert", {"embed_tokens"}}}, kUnsupported, "modules_to_convert: found an array"}});
}

// ---- compressed-tensors ----

json group_of(const json& weights, const json& activations = nullptr, const json& targets = {"Linear"}) {
  return {
      {"targets", targets}, {"weights", weights}, {"input_activations", activations}, {"output_activations", nullptr}};
}

json compressed(const std::string& format, const json& group) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"ignore", {"lm_head"}},
          {"quantization_status", "compressed"},
          {"config_groups", {{"group_0", group}}}};
}

const json kInt4 = {{"num_bits", 4}, {"type", "int"}, {"symmetric", true}, {"strategy", "group"}, {"group_size", 32}};
const json kInt8Row = {{"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", "channel"}};
const json kInt8Token = {
    {"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", "token"}, {"dynamic", true}};
const json kFloat8Row = {{"num_bits", 8}, {"type", "float"}, {"symmetric", true}, {"strategy", "channel"}};
const json kFloat8Token = with(kInt8Token, {{"type", "float"}});
const json kFloat8Tensor = with(kFloat8Row, {{"strategy", "tensor"}});
const json kFloat4 = {
    {"num_bits", 4}, {"type", "float"}, {"symmetric", true}, {"strategy", "tensor_group"}, {"group_size", 16}};

TEST(ReadCompressedTensors, KnowsItsPresets) {
  const std::pair<json, std::string> cases[] = {
      {compressed("pack-quantized", group_of(kInt4)), "q4g32.bf16"},
      {compressed("pack-quantized", group_of(with(kInt4, {{"symmetric", false}}))), "q4g32z.bf16"},
      {compressed("pack-quantized", group_of(with(kInt4, {{"actorder", "group"}}))), "q4g32.bf16 ordered"},
      {compressed("pack-quantized", group_of(with(kInt4, {{"actorder", "static"}}))), "q4g32.bf16"},
      {compressed("pack-quantized", group_of(with(kInt4, {{"scale_dtype", "torch.float32"}}))), "q4g32"},
      {compressed("pack-quantized", group_of(kInt8Row)), "q8g0.bf16"},
      {compressed("int-quantized", group_of(kInt8Row, kInt8Token)), "q8g0.bf16 int8-token"},
      {compressed("float-quantized", group_of(kFloat8Row, kFloat8Token)), "e4m3g0.bf16 e4m3-token"},
      {compressed("naive-quantized", group_of(kFloat8Row, kFloat8Token)), "e4m3g0.bf16 e4m3-token"},
      {compressed("float-quantized", group_of(kFloat8Tensor, kFloat8Tensor)), "e4m3g0.bf16 e4m3-tensor"},
      {compressed("float-quantized",
                  group_of(with(kFloat8Row, {{"strategy", "block"}, {"block_structure", {128, 128}}}),
                           with(kFloat8Row, {{"strategy", "group"}, {"group_size", 128}, {"dynamic", true}}))),
       "e4m3g128.bf16 e4m3-group"},
      {compressed("nvfp4-pack-quantized", group_of(kFloat4, with(kFloat4, {{"dynamic", "local"}}))),
       "e2m1g16 e2m1-group"},
      {compressed("nvfp4-pack-quantized", group_of(kFloat4)), "e2m1g16"},
      {compressed("mxfp4-pack-quantized", group_of(with(kFloat4, {{"strategy", "group"}, {"group_size", 32}}))),
       "e2m1g32.e8m0"},
      {compressed("mxfp8-quantized", group_of(with(kFloat4, {{"num_bits", 8}, {"group_size", 32}}))), "e4m3g32.e8m0"}};
  for (const auto& [config, expected] : cases) {
    EXPECT_EQ(usual_of(config), expected) << config;
    EXPECT_EQ(format_of(formats_of(config), kHead), "none");
  }
}

TEST(ReadCompressedTensors, PrefersNamesToExpressionsAndTheseToTheClass) {
  json config = compressed("mixed-precision", with(group_of(kInt4), {{"format", "pack-quantized"}}));
  config["config_groups"]["group_1"] =
      with(group_of(kInt8Row, kInt8Token, {"re:.*down_proj$", "re:.*up_proj$"}), {{"format", "int-quantized"}});
  config["config_groups"]["group_2"] =
      with(group_of(kFloat8Row, kFloat8Token, {"model.layers.1.mlp.down_proj"}), {{"format", "float-quantized"}});
  config["ignore"] = {"re:.*k_proj", "model.layers.0.mlp.up_proj"};
  const WeightFormats formats = formats_of(config);
  EXPECT_EQ(format_of(formats, kQuery), "q4g32.bf16");
  EXPECT_EQ(format_of(formats, kDown), "e4m3g0.bf16 e4m3-token");
  EXPECT_EQ(format_of(formats, "model.layers.0.mlp.down_proj.weight"), "q8g0.bf16 int8-token");
  EXPECT_EQ(format_of(formats, "model.layers.0.mlp.up_proj.weight"), "none");
  EXPECT_EQ(format_of(formats, "model.layers.1.self_attn.k_proj.weight"), "none");
  EXPECT_EQ(format_of(formats, kHead), "q4g32.bf16") << "it is a linear module, too";
}

TEST(ReadCompressedTensors, RefusesWhatItCannotRead) {
  const json good = compressed("pack-quantized", group_of(kInt4));
  const auto group = [](const json& weights, const json& activations = nullptr) {
    return json{{"config_groups", {{"group_0", group_of(weights, activations)}}}};
  };
  expect_refused(
      good,
      {{{{"format", "marlin-24"}}, kUnsupported, "num_bits: found integers of 4 bits in the format \"marlin-24\""},
       {{{"config_groups", nullptr}}, kInvalid, "config_groups: found null"},
       {{{"config_groups", {{"group_0", 3}}}}, kInvalid, "group_0: found 3"},
       {group(with(kInt4, {{"num_bits", 3}})), kUnsupported, "num_bits: found 3, expected 4 or 8 bits"},
       {group(with(kInt4, {{"group_size", nullptr}})), kInvalid, "group_size: found null"},
       {group(with(kInt4, {{"strategy", "tensor"}})), kUnsupported, "strategy: found \"tensor\""},
       {group(with(kInt4, {{"type", "complex"}})), kInvalid, "type: found \"complex\""},
       {group(kFloat8Row), kUnsupported, "floats of 8 bits in the format \"pack-quantized\""},
       {group(kInt4, with(kInt8Token, {{"strategy", "tensor"}, {"dynamic", false}})), kUnsupported,
        "found int activations of 8 bits by tensor, static"},
       {group(kInt4, with(kInt8Token, {{"symmetric", false}})), kUnsupported, "by token, dynamic, asymmetric"},
       {group(kInt4, with(kInt8Token, {{"num_bits", 4}})), kUnsupported, "found int activations of 4 bits"},
       {{{"sparsity_config", {{"format", "sparse-24-bitmask"}}}}, kUnsupported, "found \"sparse-24-bitmask\""},
       {{{"transform_config", {{"config_groups", {{"R1", json::object()}}}}}}, kUnsupported, "no transforms"},
       {{{"ignore", "lm_head"}}, kInvalid, "ignore: found \"lm_head\""},
       {{{"ignore", {"re:["}}}, kUnsupported, "the expression \"[\" that is malformed"}});
  json two = good;
  two["config_groups"]["group_1"] = two["config_groups"]["group_0"];
  expect_refused(two, {{json::object(), kUnsupported, "config_groups: found two groups for \"Linear\""}});
}

// ---- others ----

TEST(ReadMxfp4, QuantisesExperts) {
  const auto spec = parse(with(small("gpt_oss"), {{"quantization_config", {{"quant_method", "mxfp4"}}}}));
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(format_of(spec.value().formats, "model.layers.1.mlp.experts.5.up_proj.weight"), "e2m1g32.e8m0");
  EXPECT_EQ(format_of(spec.value().formats, kQuery), "none");
}

TEST(ReadModelOpt, HasItsFormatsAndWildcards) {
  const json nvfp4 = {
      {"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"ignore", {"lm_head", "model.layers.0.*q_proj"}}};
  EXPECT_EQ(format_of(formats_of(nvfp4), kQuery), "none");
  EXPECT_EQ(format_of(formats_of(nvfp4), kDown), "e2m1g16 e2m1-group");
  EXPECT_EQ(usual_of({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}), "e4m3g0 e4m3-tensor");
  expect_refused(nvfp4,
                 {{{{"quant_algo", "W4A8_AWQ"}}, kUnsupported, "found \"W4A8_AWQ\", expected \"NVFP4\" or \"FP8\""},
                  {{{"group_size", 32}}, kUnsupported, "group_size: found 32, expected 16"}});
}

TEST(ReadQuantisation, RefusesOtherMethodsAndNamesAlternatives) {
  for (const char* method :
       {"bitsandbytes", "aqlm", "hqq", "exl2", "exl3", "torchao", "quanto", "auto-round", "vptq"}) {
    expect_refused(
        {{"quant_method", method}},
        {{json::object(), kUnsupported, fmt::format("found quantised weights (\"{}\"), expected gptq, awq", method)},
         {json::object(), kUnsupported, "or unquantised with --weights q4"}});
  }
  expect_refused({{"load_in_4bit", true}}, {{json::object(), kUnsupported, "quantised weights (\"bitsandbytes\")"}});
  expect_refused({{"quant_method", 4}}, {{json::object(), kInvalid, "quant_method: found 4"}});
  expect_refusals(small("llama"), {{{{"quantization_config", {{"quant_method", "mxfp4"}}}}, kUnsupported, "mxfp4"},
                                   {{{"quantization_config", 4}}, kInvalid, "quantization_config: found 4"}});
}

TEST(ReadSpec, ReadsFilesBesideTheConfig) {
  const std::pair<const char*, json> files[] = {
      {"quantize_config.json", {{"bits", 4}, {"group_size", 32}, {"desc_act", false}, {"sym", true}}},
      {"quant_config.json", {{"w_bit", 4}, {"q_group_size", 32}, {"zero_point", true}, {"version", "GEMM"}}},
      {"hf_quant_config.json",
       {{"producer", {{"name", "modelopt"}}},
        {"quantization", {{"quant_algo", "NVFP4"}, {"group_size", 16}, {"exclude_modules", {"lm_head"}}}}}}};
  const std::string expected[] = {"q4g32.f16", "q4g32z.f16", "e2m1g16 e2m1-group"};
  for (size_t i = 0; i < std::size(files); ++i) {
    const TemporaryDirectory directory;
    directory.write("config.json", small("llama").dump());
    EXPECT_FALSE(read_spec(directory.path() / "config.json").value().formats.any());
    directory.write(files[i].first, files[i].second.dump());
    const auto spec = read_spec(directory.path() / "config.json");
    ASSERT_TRUE(spec.has_value()) << spec.error().message;
    EXPECT_EQ(format_of(spec.value().formats, kQuery), expected[i]) << files[i].first;
    directory.write("config.json", quantised(kAwq).dump());
    EXPECT_EQ(format_of(read_spec(directory.path() / "config.json").value().formats, kQuery), "q4g32z.f16")
        << "the config itself comes first";
  }
}

TEST(ReadSpec, ReadsTheQuantisationOfAMultimodalModel) {
  const json text = with(smallest("gemma3_text"), {{"num_key_value_heads", 2}, {"head_dim", 16}});
  const json config = {{"model_type", "gemma3"}, {"text_config", text}, {"quantization_config", kGptq}};
  const auto spec = parse(config);
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(format_of(spec.value().formats, kQuery), "q4g32.f16");
}

TEST(ReadQuantisation, KeepsNothingOfAModelWithElements) {
  EXPECT_EQ(parse(small("llama")).value().formats, WeightFormats());
  EXPECT_THAT(parse(small("llama")).value().formats.exceptions, IsEmpty());
}

}  // namespace
}  // namespace lockstep::checkpoint
