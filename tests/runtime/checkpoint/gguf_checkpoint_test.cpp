// Weights of GGUF files: block formats as the package gguf decodes them, and what llama.cpp's conversion changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/stored_tensors.h"
#include "tests/runtime/checkpoint/stored_testing.h"
#include "tests/runtime/gguf/written_gguf.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

using gguf::WrittenGguf;
using ::testing::HasSubstr;

std::vector<float> counting_floats(int64_t count, float first = 0) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
  return values;
}

std::unique_ptr<Checkpoint> open_file(const TemporaryDirectory& directory, const WrittenGguf& file,
                                      const ModelSpec& spec) {
  const std::filesystem::path path = directory.path() / "m.gguf";
  std::ofstream(path, std::ios::binary) << file.bytes();
  return open_model_checkpoint(path, spec).value();
}

/// A model whose heads have `head` elements.
ModelSpec spec_with_heads(const std::string& model_type, int64_t head) {
  ModelSpec spec = spec_of(model_type);
  spec.head_dim = head;
  return spec;
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

nlohmann::json golden() {
  std::ifstream file(LOCKSTEP_GGUF_GOLDENS);
  return nlohmann::json::parse(file);
}

TEST(GgufCheckpoint, BlockFormatsHaveExactlyTheValuesOfThePackageGguf) {
  const nlohmann::json formats = golden();
  for (const auto& format : formats["formats"]) {
    const std::string name = format["name"];
    SCOPED_TRACE(name);
    const auto values = format["values"].get<std::vector<std::vector<float>>>();
    const auto rows = static_cast<int64_t>(values.size()), columns = static_cast<int64_t>(values[0].size());
    const TemporaryDirectory directory;
    WrittenGguf file;
    file.tensor("blk.0.ffn_up.weight", {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
                gguf::find_block_type(name)->number, bytes_of_hex(format["bytes"]));
    const auto checkpoint = open_file(directory, file, spec_of("qwen2"));
    expect_matrix(*checkpoint, "model.layers.0.mlp.up_proj.weight", {rows, columns},
                  [&](int64_t row, int64_t column) { return values[row][column]; });
  }
}

TEST(GgufCheckpoint, CodesAndGroupsOfAPartGiveTheSameValues) {
  const nlohmann::json formats = golden();
  for (const auto& format : formats["formats"]) {
    const std::string name = format["name"];
    SCOPED_TRACE(name);
    const auto values = format["values"].get<std::vector<std::vector<float>>>();
    const auto rows = static_cast<int64_t>(values.size()), columns = static_cast<int64_t>(values[0].size());
    const TemporaryDirectory directory;
    WrittenGguf file;
    file.tensor("blk.0.ffn_up.weight", {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
                gguf::find_block_type(name)->number, bytes_of_hex(format["bytes"]));
    const auto checkpoint = open_file(directory, file, spec_of("qwen2"));
    const std::string tensor = "model.layers.0.mlp.up_proj.weight";
    const WeightFormat weights = *checkpoint->tensors().find(tensor)->second.format;
    const Range part{columns / 3 - 5, columns - 7};
    const int64_t first = part.begin / weights.group;
    const int64_t groups = (part.end + weights.group - 1) / weights.group - first;
    std::vector<uint8_t> codes(static_cast<size_t>(rows * part.size()));
    std::vector<float> scales(static_cast<size_t>(rows * groups));
    std::vector<float> offsets(weights.offset == GroupOffset::kNone ? 0 : scales.size());
    ASSERT_TRUE(checkpoint->read_codes(tensor, {rows, columns}, {0, rows}, part, {codes, scales, offsets}).has_value());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = part.begin; column < part.end; ++column) {
        const auto group = static_cast<size_t>(row * groups + column / weights.group - first);
        const uint8_t code = codes[static_cast<size_t>(row * part.size() + column - part.begin)];
        EXPECT_EQ(decode(weights, code, scales[group], offsets.empty() ? 0.0F : offsets[group]), values[row][column]);
        EXPECT_LT(code, 1 << weights.bits);
      }
    }
  }
}

TEST(GgufCheckpoint, OfLlamaHasTheHalvesOfEachHeadInTurn) {
  constexpr int64_t kWide = 8;
  const TemporaryDirectory directory;
  WrittenGguf file;
  file.floats("blk.0.attn_q.weight", {4, 16}, counting_floats(64))
      .floats("blk.0.attn_q.bias", {16}, counting_floats(16));
  const auto checkpoint = open_file(directory, file, spec_with_heads("llama", kWide));
  const auto place = [](int64_t row) { return row / kWide * kWide + row % kWide % 4 * 2 + row % kWide / 4; };
  expect_matrix(*checkpoint, "model.layers.0.self_attn.q_proj.weight", {16, 4},
                [&](int64_t row, int64_t column) { return static_cast<float>(place(row) * 4 + column); });
  std::vector<float> bias;
  for (int64_t row = 0; row < 16; ++row) bias.push_back(static_cast<float>(place(row)));
  expect_vector(*checkpoint, "model.layers.0.self_attn.q_proj.bias", bias);
}

TEST(GgufCheckpoint, OfLlamaHasTheHalvesInTurnInBlocksToo) {
  const TemporaryDirectory directory;
  std::string rows;
  for (int row = 0; row < 4; ++row)
    rows += WrittenGguf::raw<uint16_t>(0x3c00) + std::string(32, static_cast<char>(row));
  WrittenGguf file;
  file.tensor("blk.0.attn_k.weight", {32, 4}, /*Q8_0*/ 8, rows);
  const auto checkpoint = open_file(directory, file, spec_with_heads("llama", 4));
  constexpr float kExpected[] = {0, 2, 1, 3};
  expect_matrix(*checkpoint, "model.layers.0.self_attn.k_proj.weight", {4, 32},
                [&](int64_t row, int64_t) { return kExpected[row]; });
}

TEST(GgufCheckpoint, OfQwenHasRowsAsTheyAre) {
  const TemporaryDirectory directory;
  WrittenGguf file;
  file.floats("blk.0.attn_q.weight", {4, 8}, counting_floats(32)).floats("blk.0.attn_norm.weight", {3}, {1, 2, 3});
  const auto checkpoint = open_file(directory, file, spec_with_heads("qwen2", 8));
  expect_matrix(*checkpoint, "model.layers.0.self_attn.q_proj.weight", {8, 4},
                [&](int64_t row, int64_t column) { return static_cast<float>(row * 4 + column); });
  expect_vector(*checkpoint, "model.layers.0.input_layernorm.weight", {1, 2, 3});
}

TEST(GgufCheckpoint, OfGemmaHasNormsWithoutTheOneThatWasAdded) {
  const TemporaryDirectory directory;
  WrittenGguf file;
  file.floats("blk.0.attn_norm.weight", {2}, {1.5, 3}).floats("blk.0.post_ffw_norm.weight", {2}, {1, 0.75});
  file.floats("output_norm.weight", {2}, {2, 1}).floats("blk.0.ffn_norm.weight", {2}, {9, 1});
  const auto checkpoint = open_file(directory, file, spec_of("gemma2"));
  expect_vector(*checkpoint, "model.layers.0.input_layernorm.weight", {0.5, 2});
  expect_vector(*checkpoint, "model.layers.0.post_feedforward_layernorm.weight", {0, -0.25});
  expect_vector(*checkpoint, "model.layers.0.pre_feedforward_layernorm.weight", {8, 0});
  expect_vector(*checkpoint, "model.norm.weight", {1, 0});
}

TEST(GgufCheckpoint, OfMixturesHasStackedExperts) {
  const TemporaryDirectory directory;
  const std::string block = WrittenGguf::raw<uint16_t>(0x3c00);
  std::string rows;
  for (int row = 0; row < 2 * 3; ++row) rows += block + std::string(32, static_cast<char>(row));
  WrittenGguf file;
  file.floats("blk.0.ffn_gate_exps.weight", {2, 3, 2}, counting_floats(12));
  file.tensor("blk.0.ffn_up_exps.weight", {32, 3, 2}, /*Q8_0*/ 8, rows);
  file.floats("blk.0.ffn_gate_exps.bias", {3, 2}, counting_floats(6))
      .floats("blk.0.ffn_gate_inp_shexp.weight", {2}, {5, 6});
  const auto checkpoint = open_file(directory, file, spec_of("qwen2_moe"));
  const std::string expert = "model.layers.0.mlp.experts.1.";
  expect_matrix(*checkpoint, expert + "gate_proj.weight", {3, 2},
                [](int64_t row, int64_t column) { return static_cast<float>(6 + row * 2 + column); });
  expect_matrix(*checkpoint, expert + "up_proj.weight", {3, 32},
                [](int64_t row, int64_t) { return static_cast<float>(3 + row); });
  expect_vector(*checkpoint, expert + "gate_proj.bias", {3, 4, 5});
  EXPECT_EQ(read_part(*checkpoint, "model.layers.0.mlp.shared_expert_gate.weight", {1, 2}, {{0, 1}, {0, 2}}),
            (std::vector<float>{5, 6}));
}

TEST(GgufCheckpoint, FusedProjectionsAreDivided) {
  const TemporaryDirectory directory;
  WrittenGguf file;
  const auto rows = static_cast<uint64_t>((kQueryHeads + 2 * kKeyHeads) * kHead);
  file.floats("blk.0.attn_qkv.weight", {2, rows}, counting_floats(static_cast<int64_t>(2 * rows)));
  file.floats("blk.0.ffn_up.weight", {2, 6}, counting_floats(12));
  const auto checkpoint = open_file(directory, file, spec_of("phi3"));
  const auto from = [](int64_t first) {
    return [first](int64_t row, int64_t column) { return static_cast<float>((first + row) * 2 + column); };
  };
  expect_matrix(*checkpoint, "model.layers.0.self_attn.k_proj.weight", {2, 2}, from(kQueryHeads * kHead));
  expect_matrix(*checkpoint, "model.layers.0.mlp.gate_proj.weight", {3, 2}, from(0));
  expect_matrix(*checkpoint, "model.layers.0.mlp.up_proj.weight", {3, 2}, from(3));
}

TEST(GgufCheckpoint, OtherTypesAreRefusedByName) {
  const TemporaryDirectory directory;
  WrittenGguf file;
  file.tensor("blk.0.ffn_up.weight", {256, 1}, /*IQ4_XS*/ 23, std::string(136, ' '));
  const auto checkpoint = open_file(directory, file, spec_of("llama"));
  std::vector<float> values(256);
  const auto read =
      checkpoint->read("model.layers.0.mlp.up_proj.weight", {1, 256}, std::vector<Range>{{0, 1}, {0, 256}},
                       DType::kFloat32, std::as_writable_bytes(std::span(values)));
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(read.error().message, HasSubstr("up_proj.weight (blk.0.ffn_up.weight)"));
  EXPECT_THAT(read.error().message, HasSubstr("found type IQ4_XS"));
}

TEST(GgufCheckpoint, SpecOfAFileIsThatOfItsMetadata) {
  const TemporaryDirectory directory;
  WrittenGguf file;
  file.text("general.architecture", "qwen3").number("qwen3.context_length", 64).number("qwen3.block_count", 1);
  file.number("qwen3.embedding_length", 8)
      .number("qwen3.feed_forward_length", 16)
      .number("qwen3.attention.head_count", 2);
  file.number("qwen3.attention.key_length", 4).real("qwen3.attention.layer_norm_rms_epsilon", 1e-6F);
  file.floats("token_embd.weight", {8, 3}, counting_floats(24));
  const std::filesystem::path path = directory.path() / "m.gguf";
  std::ofstream(path, std::ios::binary) << file.bytes();
  const ModelSpec spec = read_spec(path / "config.json").value();
  EXPECT_EQ(spec.model_type, "qwen3");
  EXPECT_EQ(spec.vocabulary, 3);
  EXPECT_EQ(spec.head_dim, 4);
  EXPECT_TRUE(spec.query_key_norm);
}

}  // namespace
}  // namespace lockstep::checkpoint
