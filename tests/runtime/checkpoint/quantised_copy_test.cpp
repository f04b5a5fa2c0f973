#include "runtime/checkpoint/quantised_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/verified_model.h"
#include "runtime/checkpoint/weight_sums.h"
#include "runtime/core/weight_format.h"
#include "tests/model/hashed_weights.h"
#include "tests/runtime/gguf/written_gguf.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

using model::HashedFloats;
using model::HashedModelLayout;
using model::HashedTensor;
using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 48,
  "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 20,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "tie_word_embeddings": false})";

const std::string kLayer = "model.layers.0.";
const HashedTensor kGate{kLayer + "mlp.gate_proj.weight", {48, 32}, HashedFloats{0.0f, 0.05f}};

std::vector<HashedTensor> tensors() {
  return {{"model.embed_tokens.weight", {20, 32}, {}},
          {kLayer + "input_layernorm.weight", {32}, {}},
          {kLayer + "self_attn.q_proj.weight", {32, 32}, {}},
          {kLayer + "self_attn.k_proj.weight", {16, 32}, {}},
          {kLayer + "self_attn.v_proj.weight", {16, 32}, {}},
          {kLayer + "self_attn.o_proj.weight", {32, 32}, {}},
          {kLayer + "post_attention_layernorm.weight", {32}, {}},
          kGate,
          {kLayer + "mlp.up_proj.weight", {48, 32}, {}},
          {kLayer + "mlp.down_proj.weight", {32, 48}, {}},
          {"model.norm.weight", {32}, {}},
          {"lm_head.weight", {20, 32}, {}}};
}

void write_text(const std::filesystem::path& path, std::string_view text) { std::ofstream(path) << text; }

class QuantisedCopyTest : public ::testing::Test {
 protected:
  QuantisedCopyTest() { write(DType::kBFloat16, kConfig); }

  void write(DType dtype, std::string_view config, const std::vector<HashedTensor>& all = tensors()) const {
    std::filesystem::create_directories(src());
    write_text(src() / "config.json", config);
    write_text(src() / "tokenizer.json", "{}");
    model::write_hashed_weights(src(), all, {}, {.dtype = dtype});
  }

  std::filesystem::path src() const { return directory_.path() / "src"; }
  std::filesystem::path dst() const { return directory_.path() / "dst"; }

  /// Elements of an entry of the copy.
  template <typename T>
  std::vector<T> read(const TensorEntry& entry) const {
    std::vector<T> values(static_cast<size_t>(entry.bytes) / sizeof(T));
    std::ifstream file(entry.file, std::ios::binary);
    file.seekg(entry.offset);
    file.read(reinterpret_cast<char*>(values.data()), entry.bytes);
    EXPECT_TRUE(file.good()) << entry.file;
    return values;
  }

  TemporaryDirectory directory_;
};

TEST_F(QuantisedCopyTest, HoldsTheCodesAndScalesThatQuantiseMakes) {
  for (const int bits : {4, 8}) {
    std::filesystem::remove_all(dst());
    const auto copy = write_quantised_copy(src(), dst(), {.bits = bits, .group = 16, .threads = 3});
    ASSERT_TRUE(copy.has_value()) << copy.error().message;
    const auto written = open_checkpoint(dst()).value();
    const std::string module = kLayer + "mlp.gate_proj";
    const TensorMap& entries = written->tensors();
    EXPECT_EQ(entries.find(module + ".weight"), entries.end());
    const auto packed = read<uint8_t>(entries.at(module + ".weight_packed"));
    const auto scales = read<uint16_t>(entries.at(module + ".weight_scale"));
    EXPECT_EQ(read<int64_t>(entries.at(module + ".weight_shape")), (std::vector<int64_t>{48, 32}));
    const WeightFormat format{.bits = bits, .group = 16, .scale = ScaleType::kBFloat16};
    const std::vector<float> elements = model::hashed_tensor({}, kGate);
    for (size_t group = 0; group < scales.size(); ++group) {
      std::vector<float> values;
      for (size_t k = 0; k < 16; ++k) values.push_back(round_to(DType::kBFloat16, elements[group * 16 + k]));
      std::vector<uint8_t> codes(16);
      EXPECT_EQ(to_float(BFloat16{scales[group]}), quantise(format, values.data(), 16, codes.data()));
      for (size_t k = 0; k < 16; ++k) {
        const size_t at = group * 16 + k;
        const int found = bits == 8 ? packed[at] : (packed[at / 2] >> (at % 2 * 4)) & 15;
        EXPECT_EQ(found, codes[k]) << bits << " bits, element " << at;
      }
    }
  }
}

TEST_F(QuantisedCopyTest, KeepsEverythingElse) {
  const auto copy = write_quantised_copy(src(), dst(), {});
  ASSERT_TRUE(copy.has_value()) << copy.error().message;
  EXPECT_TRUE(std::filesystem::exists(dst() / "tokenizer.json"));
  const auto before = open_checkpoint(src()).value(), after = open_checkpoint(dst()).value();
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"}) {
    EXPECT_EQ(read<uint16_t>(before->tensors().at(name)), read<uint16_t>(after->tensors().at(name))) << name;
  }
  // 48 columns are not a multiple of 32.
  EXPECT_THAT(copy.value().kept, Contains(kLayer + "mlp.down_proj"));
  EXPECT_TRUE(after->contains(kLayer + "mlp.down_proj.weight"));
  EXPECT_EQ(copy.value().matrices.size(), 6u);
  for (const QuantisedMatrix& matrix : copy.value().matrices) {
    EXPECT_GT(matrix.error, 0.01) << matrix.module;
    EXPECT_LT(matrix.error, 0.12) << matrix.module;
  }
  EXPECT_LT(copy.value().bytes_after, copy.value().bytes_before);
}

TEST_F(QuantisedCopyTest, HasNoSumsOfTheOldWeights) {
  ASSERT_TRUE(verify_model(src(), {.action = SumsAction::kWrite}).has_value());
  ASSERT_TRUE(std::filesystem::exists(path_of_sums(src())));
  ASSERT_TRUE(write_quantised_copy(src(), dst(), {}).has_value());
  EXPECT_FALSE(std::filesystem::exists(path_of_sums(dst())));
}

TEST_F(QuantisedCopyTest, NamesTheFormatInTheConfig) {
  ASSERT_TRUE(write_quantised_copy(src(), dst(), {.bits = 8, .group = 16}).has_value());
  std::ifstream file(dst() / "config.json");
  const json config = json::parse(file);
  EXPECT_EQ(config["hidden_size"], 32);
  const json& quantisation = config["quantization_config"];
  EXPECT_EQ(quantisation["quant_method"], "compressed-tensors");
  EXPECT_EQ(quantisation["format"], "pack-quantized");
  EXPECT_EQ(quantisation["config_groups"]["group_0"]["targets"], json::array({"Linear"}));
  const json& weights = quantisation["config_groups"]["group_0"]["weights"];
  EXPECT_EQ(weights["num_bits"], 8);
  EXPECT_EQ(weights["group_size"], 16);
  EXPECT_EQ(weights["symmetric"], true);
  const auto ignored = quantisation["ignore"].get<std::vector<std::string>>();
  EXPECT_THAT(ignored, Contains("lm_head"));
  EXPECT_THAT(ignored, Not(Contains(kLayer + "mlp.down_proj")));
}

TEST_F(QuantisedCopyTest, LeavesATiedHeadAlone) {
  std::vector<HashedTensor> tied = tensors();
  tied.pop_back();
  json config = json::parse(kConfig);
  config["tie_word_embeddings"] = true;
  std::filesystem::remove_all(src());
  write(DType::kBFloat16, config.dump(), tied);
  ASSERT_TRUE(write_quantised_copy(src(), dst(), {}).has_value());
  std::ifstream file(dst() / "config.json");
  const json ignored = json::parse(file)["quantization_config"]["ignore"];
  EXPECT_THAT(ignored.get<std::vector<std::string>>(), Contains("lm_head"));
  EXPECT_THAT(ignored.get<std::vector<std::string>>(), Contains("model.embed_tokens"));
}

TEST_F(QuantisedCopyTest, RefusesAFolderWithFiles) {
  std::filesystem::create_directories(dst());
  write_text(dst() / "notes.txt", "mine");
  const auto copy = write_quantised_copy(src(), dst(), {});
  ASSERT_FALSE(copy.has_value());
  EXPECT_EQ(copy.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(copy.error().message, HasSubstr("expected an empty or no folder"));
}

TEST_F(QuantisedCopyTest, RefusesAGgufFileBeforeItWrites) {
  gguf::WrittenGguf file;
  file.text("general.architecture", "llama").number("llama.context_length", 64).number("llama.block_count", 1);
  file.number("llama.embedding_length", 8).number("llama.feed_forward_length", 16);
  file.number("llama.attention.head_count", 2).real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  file.number("llama.rope.dimension_count", 4).floats("token_embd.weight", {8, 3}, std::vector<float>(24));
  const std::filesystem::path path = src() / "m.gguf";
  std::ofstream(path, std::ios::binary) << file.bytes();
  const auto copy = write_quantised_copy(path, dst(), {});
  ASSERT_FALSE(copy.has_value());
  EXPECT_EQ(copy.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(copy.error().message, HasSubstr("m.gguf: found a GGUF file, expected a directory of Hugging Face"));
  EXPECT_FALSE(std::filesystem::exists(dst()));
}

TEST_F(QuantisedCopyTest, RefusesGroupsThatDivideNothing) {
  const auto copy = write_quantised_copy(src(), dst(), {.group = 64});
  ASSERT_FALSE(copy.has_value());
  EXPECT_EQ(copy.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(copy.error().message, HasSubstr("whose columns are a multiple of 64"));
}

TEST_F(QuantisedCopyTest, NamesARowThatIsNotFinite) {
  write(DType::kFloat32, kConfig);
  const auto files = open_checkpoint(src()).value();
  const TensorEntry& entry = files->tensors().at(kGate.name);
  std::fstream file(entry.file, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(entry.offset + (7 * 32 + 20) * 4);
  const float infinity = INFINITY;
  file.write(reinterpret_cast<const char*>(&infinity), sizeof infinity);
  file.close();
  const auto copy = write_quantised_copy(src(), dst(), {.group = 16});
  ASSERT_FALSE(copy.has_value());
  EXPECT_THAT(copy.error().message, HasSubstr("found a NaN or an infinity in row 7, columns 16 to 31"));
  EXPECT_FALSE(std::filesystem::exists(dst() / "config.json"));
}

}  // namespace
}  // namespace lockstep::checkpoint
