// Weights of GGUF files: block formats as the package gguf decodes them, and what llama.cpp's conversion changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

constexpr size_t kReadFormats = 9;  // block formats in gguf_tensor.cpp

TEST(GgufCheckpoint, BlockFormatsHaveExactlyTheValuesOfThePackageGguf) {
  const nlohmann::json formats = golden();
  ASSERT_EQ(formats["formats"].size(), kReadFormats);
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
  ASSERT_EQ(formats["formats"].size(), kReadFormats);
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

/// Linear attention of 2 key heads, each with 2 value heads of `width`.
ModelSpec spec_with_value_heads(const std::string& model_type, int64_t width) {
  ModelSpec spec = spec_of(model_type);
  spec.delta_rule = {.key_heads = 2, .value_heads = 4, .key_dim = 1, .value_dim = width, .taps = 2};
  return spec;
}

/// The place of a value head in files of Qwen 3.5.
constexpr int64_t kTiles[] = {0, 2, 1, 3};

TEST(GgufCheckpoint, OfQwen35HasValueHeadsByKeyHead) {
  const TemporaryDirectory directory;
  WrittenGguf file;
  file.floats("blk.0.attn_qkv.weight", {1, 12}, counting_floats(12));
  file.floats("blk.0.attn_gate.weight", {1, 8}, counting_floats(8));
  file.floats("blk.0.ssm_conv1d.weight", {2, 12}, counting_floats(24));
  file.floats("blk.0.ssm_dt.bias", {4}, counting_floats(4)).floats("blk.0.ssm_out.weight", {8, 2}, counting_floats(16));
  const auto checkpoint = open_file(directory, file, spec_with_value_heads("qwen3_5_text", 2));
  const std::string layer = "model.layers.0.linear_attn.";
  const auto place = [](int64_t row) { return kTiles[row / 2] * 2 + row % 2; };
  const auto from = [&](int64_t first) {
    return [=](int64_t row, int64_t) { return static_cast<float>(first + place(row)); };
  };
  expect_matrix(*checkpoint, layer + "k_proj.weight", {2, 1}, [](int64_t row, int64_t) { return 2.0F + row; });
  expect_matrix(*checkpoint, layer + "v_proj.weight", {8, 1}, from(4));
  expect_matrix(*checkpoint, layer + "z_proj.weight", {8, 1}, from(0));
  expect_matrix(*checkpoint, layer + "v_conv.weight", {8, 2},
                [&](int64_t row, int64_t tap) { return static_cast<float>((4 + place(row)) * 2 + tap); });
  expect_vector(*checkpoint, layer + "dt_bias", {0, 2, 1, 3});
  expect_matrix(*checkpoint, layer + "o_proj.weight", {2, 8},
                [&](int64_t row, int64_t column) { return static_cast<float>(row * 8 + place(column)); });
}

TEST(GgufCheckpoint, OfQwen35HasColumnsByKeyHeadInBlocksToo) {
  constexpr int64_t kWidth = 32;
  const TemporaryDirectory directory;
  std::string block;  // of a row: a head each
  for (char head = 0; head < 4; ++head) block += WrittenGguf::raw<uint16_t>(0x3c00) + std::string(kWidth, head);
  WrittenGguf file;
  file.tensor("blk.0.ssm_out.weight", {4 * kWidth, 2}, /*Q8_0*/ 8, block + block);
  const auto checkpoint = open_file(directory, file, spec_with_value_heads("qwen3_5_text", kWidth));
  expect_matrix(*checkpoint, "model.layers.0.linear_attn.o_proj.weight", {2, 4 * kWidth},
                [](int64_t, int64_t column) { return static_cast<float>(kTiles[column / kWidth]); });
  const std::vector<float> part = read_part(*checkpoint, "model.layers.0.linear_attn.o_proj.weight", {2, 4 * kWidth},
                                            {{1, 2}, {kWidth - 1, 2 * kWidth + 1}});
  ASSERT_EQ(part.size(), kWidth + 2);
  EXPECT_EQ(part.front(), 0);
  EXPECT_EQ(part[1], 2);
  EXPECT_EQ(part.back(), 1);
}

TEST(GgufCheckpoint, OfQwen35RefusesAGroupOfTwoHeads) {
  const TemporaryDirectory directory;
  WrittenGguf file;
  file.tensor("blk.0.ssm_out.weight", {64, 1}, /*Q8_0*/ 8, std::string(68, ' '));
  const std::filesystem::path path = directory.path() / "m.gguf";
  std::ofstream(path, std::ios::binary) << file.bytes();
  const auto checkpoint = open_model_checkpoint(path, spec_with_value_heads("qwen3_5_text", 16));
  ASSERT_FALSE(checkpoint.has_value());
  EXPECT_EQ(checkpoint.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(checkpoint.error().message, HasSubstr("blk.0.ssm_out.weight"));
  EXPECT_THAT(checkpoint.error().message, HasSubstr("groups have 32 columns, and heads of 16"));
}

TEST(GgufCheckpoint, OfQwenNextHasDecaysAndNormsAsInADirectory) {
  const TemporaryDirectory directory;
  WrittenGguf file;
  file.floats("blk.0.ssm_a", {4}, {-1, -std::exp(2.0F), -std::exp(-3.0F), -std::exp(0.5F)});
  file.floats("blk.0.ssm_norm.weight", {2}, {1, 2}).floats("blk.0.attn_norm.weight", {2}, {1, 2});
  file.floats("blk.0.ssm_ba.weight", {1, 8}, counting_floats(8));
  const auto checkpoint = open_file(directory, file, spec_with_value_heads("qwen3_next", 2));
  const std::string layer = "model.layers.0.linear_attn.";
  const std::vector<float> decays = read_part(*checkpoint, layer + "a_log", {4}, {{0, 4}});
  const std::vector<float> expected = {0, 2, -3, 0.5};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(decays[i], expected[i], 1e-6F) << i;  // exp and log, both rounded
  expect_vector(*checkpoint, layer + "norm.weight", {1, 2});
  expect_vector(*checkpoint, "model.layers.0.input_layernorm.weight", {0, 1});
  constexpr float kFirst[] = {0, 1, 4, 5};  // of each key head: two of b, two of a
  expect_matrix(*checkpoint, layer + "b_proj.weight", {4, 1}, [&](int64_t row, int64_t) { return kFirst[row]; });
  expect_matrix(*checkpoint, layer + "a_proj.weight", {4, 1}, [&](int64_t row, int64_t) { return kFirst[row] + 2; });
}

TEST(GgufCheckpoint, OfQwenNextMayHaveProjectionsByKeyHead) {
  const TemporaryDirectory directory;
  WrittenGguf file;  // of each key head: a query, a key, 2 · 2 values, 2 · 2 gates
  file.floats("blk.0.ssm_in.weight", {1, 20}, counting_floats(20));
  const auto checkpoint = open_file(directory, file, spec_with_value_heads("qwen3_next", 2));
  const std::string layer = "model.layers.0.linear_attn.";
  const auto from = [](int64_t first, int64_t rows) {
    return [=](int64_t row, int64_t) { return static_cast<float>(row / rows * 10 + first + row % rows); };
  };
  expect_matrix(*checkpoint, layer + "q_proj.weight", {2, 1}, from(0, 1));
  expect_matrix(*checkpoint, layer + "k_proj.weight", {2, 1}, from(1, 1));
  expect_matrix(*checkpoint, layer + "v_proj.weight", {8, 1}, from(2, 4));
  expect_matrix(*checkpoint, layer + "z_proj.weight", {8, 1}, from(6, 4));
}

TEST(GgufCheckpoint, OfGemma3nHasStackedStreams) {
  const TemporaryDirectory directory;
  WrittenGguf file;
  file.floats("altup_proj.weight", {2, 2, 3}, counting_floats(12)).floats("blk.0.attn_norm.weight", {2}, {1, 2});
  ModelSpec spec = spec_of("gemma3n_text");
  spec.streams = 4;
  const auto checkpoint = open_file(directory, file, spec);
  expect_matrix(*checkpoint, "model.altup_projections.2.weight", {2, 2},
                [](int64_t row, int64_t column) { return static_cast<float>(8 + row * 2 + column); });
  expect_vector(*checkpoint, "model.layers.0.input_layernorm.weight", {1, 2});
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
