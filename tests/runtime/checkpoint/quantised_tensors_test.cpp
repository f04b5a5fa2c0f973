// Matrices in codes, as their libraries pack them, read in parts: they decode to the libraries' values exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/runtime/checkpoint/quantised_case.h"
#include "tests/runtime/checkpoint/stored_testing.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;

uint64_t fnv_of(const std::vector<float>& values) {
  uint64_t state = 0xcbf29ce484222325;
  for (const std::byte byte : std::as_bytes(std::span(values))) {
    state = (state ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  }
  return state;
}

std::vector<float> whole(const Checkpoint& checkpoint, const std::string& name, const Shape& shape) {
  return read_part(checkpoint, name, shape, {{0, shape[0]}, {0, shape[1]}});
}

/// A part of `values` (of the matrix `shape`).
std::vector<float> part_of(const std::vector<float>& values, const Shape& shape, Range rows, Range columns) {
  std::vector<float> part;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      part.push_back(values[static_cast<size_t>(row * shape[1] + column)]);
    }
  }
  return part;
}

/// Reads codes and decodes them.
std::vector<float> decoded(const Checkpoint& checkpoint, const std::string& name, const Shape& shape, Range rows,
                           Range columns) {
  const WeightFormat format = *checkpoint.tensors().find(name)->second.format;
  const int64_t first = columns.begin / format.group, groups = (columns.end + format.group - 1) / format.group - first;
  std::vector<uint8_t> codes(static_cast<size_t>(rows.size() * columns.size()));
  std::vector<float> scales(static_cast<size_t>(rows.size() * groups), std::nanf(""));
  std::vector<float> offsets(format.offset == GroupOffset::kNone ? 0 : scales.size(), std::nanf(""));
  const auto read = checkpoint.read_codes(name, shape, rows, columns, {codes, scales, offsets});
  EXPECT_TRUE(read.has_value()) << read.error().message;
  std::vector<float> values;
  for (int64_t row = 0; row < rows.size(); ++row) {
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      const auto group = static_cast<size_t>(row * groups + column / format.group - first);
      values.push_back(decode(format, codes[values.size()], scales[group], offsets.empty() ? 0.0f : offsets[group]));
    }
  }
  return values;
}

/// The elements of `values` (of the matrix `shape`) with their columns as codes are read: sorted by group, where a
/// list divides them into groups.
std::vector<float> in_order_of_codes(const Checkpoint& checkpoint, const std::string& name, const Shape& shape,
                                     const std::vector<float>& values) {
  const std::string order_name = name.substr(0, name.rfind('.')) + ".column_order";
  if (!checkpoint.contains(order_name)) return values;
  const std::vector<float> order = read_part(checkpoint, order_name, {shape[1]}, {{0, shape[1]}});
  std::vector<float> sorted;
  for (int64_t row = 0; row < shape[0]; ++row) {
    for (const float column : order)
      sorted.push_back(values[static_cast<size_t>(row * shape[1]) + static_cast<size_t>(column)]);
  }
  return sorted;
}

/// Any rows and columns of a matrix are those of the whole, as elements and in codes.
void expect_parts(const Checkpoint& checkpoint, const std::string& name, const Shape& shape,
                  const std::vector<float>& values) {
  const std::vector<float> sorted = in_order_of_codes(checkpoint, name, shape, values);
  std::mt19937 random(28);
  const auto range = [&](int64_t size) {
    const auto a = static_cast<int64_t>(random() % static_cast<uint64_t>(size));
    return Range{a, a + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(size - a))};
  };
  for (int i = 0; i < 40; ++i) {
    const Range rows = range(shape[0]), columns = range(shape[1]);
    const std::vector<float> expected = part_of(values, shape, rows, columns);
    ASSERT_EQ(read_part(checkpoint, name, shape, {rows, columns}), expected)
        << name << "[" << to_string(rows) << ", " << to_string(columns) << "]";
    ASSERT_EQ(decoded(checkpoint, name, shape, rows, columns), part_of(sorted, shape, rows, columns))
        << name << "[" << to_string(rows) << ", " << to_string(columns) << "]";
  }
}

TEST(QuantisedTensors, DecodeToTheValuesOfTheirLibrariesInAnyParts) {
  for (const QuantisedCase& golden : quantised_cases()) {
    SCOPED_TRACE(golden.name);
    const TemporaryDirectory directory;
    const auto checkpoint = open_case(directory, golden);
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
    const std::vector<float> values = whole(*checkpoint.value(), kQuery, golden.shape);
    EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + golden.shape[1]), golden.first_row);
    EXPECT_EQ(fnv_of(values), golden.fnv);
    expect_parts(*checkpoint.value(), kQuery, golden.shape, values);
  }
}

TEST(QuantisedTensors, HaveTheFormatsOfTheFiles) {
  const std::map<std::string, std::string> expected = {{"w4a16", "q4g16.bf16"},
                                                       {"w4a16 asymmetric", "q4g20z.f16"},
                                                       {"w4a16 rows that end inside a word", "q4g0"},
                                                       {"w8a16 asymmetric rows", "q8g0z.bf16"},
                                                       {"w8a16 groups", "q8g24.bf16"},
                                                       {"w8a8", "q8g0.bf16 int8-token"},
                                                       {"w8a8 asymmetric", "q8g0z.f16 int8-token"},
                                                       {"fp8 rows", "e4m3g0.bf16 e4m3-token"},
                                                       {"fp8 tensor", "e4m3g0 e4m3-tensor"},
                                                       {"fp8 blocks", "e4m3g128.bf16 e4m3-group"},
                                                       {"nvfp4", "e2m1g16"},
                                                       {"mxfp4", "e2m1g32.e8m0"},
                                                       {"mxfp8", "e4m3g32.e8m0"},
                                                       {"gptq", "q4g16.f16"},
                                                       {"gptq asymmetric", "q4g32z.f16"},
                                                       {"gptq v2 in 8 bits", "q8g32z.f16"},
                                                       {"gptq of whole rows", "q8g0.f16"},
                                                       {"gptq in another order", "q4g16z.f16 ordered"},
                                                       {"awq", "q4g20z.f16"},
                                                       {"fp8 of DeepSeek", "e4m3g128 e4m3-group"},
                                                       {"fp8 of DeepSeek with exponents", "e4m3g128.e8m0 e4m3-group"}};
  ASSERT_EQ(quantised_cases().size(), expected.size());
  for (const QuantisedCase& golden : quantised_cases()) {
    const TemporaryDirectory directory;
    golden.write(directory);
    const auto formats = stored_weight_formats(directory.path(), spec_of("llama"));
    ASSERT_TRUE(formats.has_value()) << formats.error().message;
    EXPECT_EQ(to_string(formats.value().of(kQuery).value()), expected.at(golden.name)) << golden.name;
    const auto checkpoint = open_model_checkpoint(directory.path(), spec_of("llama")).value();
    const WeightFormat entry = formats.value().of(kQuery)->of_columns(golden.shape[1]);
    EXPECT_EQ(checkpoint->tensors().find(kQuery)->second.format, entry) << golden.name;
  }
}

TEST(QuantisedTensors, AreDecodedWhereGroupsByAListHaveDifferentSizes) {
  QuantisedCase golden = quantised_case("gptq in another order");
  const int32_t group_of_another = 3;
  golden["g_idx"].set(0, group_of_another);
  golden["g_idx"].set(1, group_of_another);
  golden["g_idx"].set(2, group_of_another);
  const TemporaryDirectory directory;
  const auto checkpoint = open_case(directory, golden).value();
  EXPECT_FALSE(stored_weight_formats(directory.path(), spec_of("llama")).value().of(kQuery));
  EXPECT_FALSE(checkpoint->contains("model.layers.0.self_attn.q_proj.column_order"));
  const std::vector<float> values = whole(*checkpoint, kQuery, golden.shape);
  EXPECT_NE(values.front(), golden.first_row.front());
  EXPECT_EQ(values[5], golden.first_row[5]);
}

TEST(QuantisedTensors, TouchOnlyTheBytesOfTheirRowsAndColumns) {
  const QuantisedCase golden = quantised_case("w4a16");
  const TemporaryDirectory directory;
  const auto checkpoint = open_case(directory, golden).value();
  const int64_t before = checkpoint->bytes_read();
  decoded(*checkpoint, kQuery, golden.shape, {3, 5}, {18, 31});
  EXPECT_EQ(checkpoint->bytes_read() - before, 2 * 7 + 2 * 2) << "columns 18 to 31 and a scale, of two rows";
}

TEST(QuantisedTensors, AreDividedIntoThePartsOfAFusedModule) {
  struct Fused {
    const char* name;
    int64_t query_heads, head_dim;
  };
  for (const auto& [name, query_heads, head_dim] :
       {Fused{"gptq", 6, 4}, {"gptq asymmetric", 6, 4}, {"awq", 6, 4}, {"fp8 blocks", 3, 4}, {"w8a16 groups", 9, 1}}) {
    SCOPED_TRACE(name);
    const QuantisedCase golden = quantised_case(name);
    const TemporaryDirectory directory;
    const auto separate = open_case(directory, golden).value();
    const std::vector<float> values = whole(*separate, kQuery, golden.shape);
    ModelSpec spec = spec_of("phi3");
    spec.query_heads = query_heads;
    spec.head_dim = head_dim;
    const TemporaryDirectory fused_directory;
    golden.write(fused_directory, "model.layers.0.self_attn.qkv_proj");
    const auto fused = open_model_checkpoint(fused_directory.path(), spec);
    ASSERT_TRUE(fused.has_value()) << fused.error().message;
    const int64_t query = query_heads * head_dim, columns = golden.shape[1];
    const std::pair<const char*, Range> parts[] = {
        {"q", {0, query}}, {"k", {query, query + head_dim}}, {"v", {query + head_dim, query + 2 * head_dim}}};
    for (const auto& [part, rows] : parts) {
      const std::string tensor = fmt::format("model.layers.0.self_attn.{}_proj.weight", part);
      expect_parts(*fused.value(), tensor, {rows.size(), columns}, part_of(values, golden.shape, rows, {0, columns}));
    }
  }
}

TEST(QuantisedTensors, AreTransposedByHeadForTheKeysOfLatentAttention) {
  for (const char* name : {"gptq asymmetric", "awq", "gptq in another order"}) {
    SCOPED_TRACE(name);
    const QuantisedCase golden = quantised_case(name);
    const TemporaryDirectory directory;
    const std::vector<float> values = whole(*open_case(directory, golden).value(), kQuery, golden.shape);
    constexpr int64_t kHeads = 4, kPlain = 3, kValue = 5;
    const int64_t rank = golden.shape[1];
    ModelSpec spec = spec_of("deepseek_v3");
    spec.query_heads = kHeads;
    spec.latent = {.rank = rank, .plain_dim = kPlain, .rotated_dim = 2, .value_dim = kValue};
    const TemporaryDirectory own;
    golden.write(own, "model.layers.0.self_attn.kv_b_proj");
    const auto checkpoint = open_model_checkpoint(own.path(), spec);
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
    std::vector<float> keys;
    for (int64_t row = 0; row < kHeads * rank; ++row) {
      for (int64_t column = 0; column < kPlain; ++column) {
        const int64_t stored = row / rank * (kPlain + kValue) + column;
        keys.push_back(values[static_cast<size_t>(stored * rank + row % rank)]);
      }
    }
    expect_parts(*checkpoint.value(), "model.layers.0.self_attn.latent_key_proj.weight", {kHeads * rank, kPlain}, keys);
  }
}

TEST(QuantisedTensors, MayBeExpertsOfWhichEachHasItsTensors) {
  const QuantisedCase golden = quantised_case("w4a16");
  const TemporaryDirectory directory;
  golden.write(directory, "model.layers.0.block_sparse_moe.experts.1.w2");
  const auto checkpoint = open_model_checkpoint(directory.path(), spec_of("mixtral"));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  EXPECT_EQ(fnv_of(whole(*checkpoint.value(), "model.layers.0.mlp.experts.1.down_proj.weight", golden.shape)),
            golden.fnv);
}

/// The case as the second of two experts in stacks [experts, …]; parts are named "weight_scale", "_weight_scale" or
/// "_scale" by `style` 0 to 2.
QuantisedCase as_stack(QuantisedCase golden, int style) {
  std::map<std::string, RawTensor> stacks;
  for (auto& [part, tensor] : golden.tensors) {
    RawTensor stack = tensor;
    if (part == "weight_shape") {
      stack.shape = {3};
      stack.bytes.insert(0, std::string(tensor.bytes.size() / 2, '\0'));
      stack.bytes[0] = 2;
    } else {
      stack.shape.insert(stack.shape.begin(), 2);
      stack.bytes.insert(0, std::string(tensor.bytes.size(), '\x35'));
    }
    std::string name = "." + part;
    if (style > 0) name[0] = '_';
    if (style > 1 && part.starts_with("weight")) name.erase(0, std::string_view("_weight").size());
    stacks[name] = std::move(stack);
  }
  golden.tensors = std::move(stacks);
  return golden;
}

TEST(QuantisedTensors, MayBeStacksOfExperts) {
  for (const char* name : {"w4a16", "w8a8", "fp8 blocks", "fp8 tensor", "nvfp4", "mxfp4", "gptq asymmetric", "awq"}) {
    const QuantisedCase golden = quantised_case(name);
    const int64_t rows = golden.shape[0], columns = golden.shape[1];
    const TemporaryDirectory alone;
    const std::vector<float> values = whole(*open_case(alone, golden).value(), kQuery, golden.shape);
    for (int style = 0; style < 3; ++style) {
      SCOPED_TRACE(fmt::format("{}, style {}", name, style));
      const QuantisedCase stack = as_stack(golden, style);
      const auto expect_stack = [&](const char* stored, const char* read, const Shape& shape,
                                    const std::vector<float>& expected) {
        const TemporaryDirectory directory;
        stack.write(directory, fmt::format("model.layers.0.mlp.experts.{}", stored), "");
        const auto checkpoint = open_model_checkpoint(directory.path(), spec_of("mixtral"));
        ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
        expect_parts(*checkpoint.value(), fmt::format("model.layers.0.mlp.experts.1.{}.weight", read), shape, expected);
      };
      expect_stack("down_proj", "down_proj", golden.shape, values);
      if (rows % 2 != 0) continue;
      expect_stack("gate_up_proj", "up_proj", {rows / 2, columns},
                   part_of(values, golden.shape, {rows / 2, rows}, {0, columns}));
    }
  }
}

TEST(QuantisedTensors, RefuseStacksOfOtherExpertsOrTransposed) {
  QuantisedCase stack = as_stack(quantised_case("w4a16"), 0);
  const TemporaryDirectory transposed;
  stack.write(transposed, "model.layers.0.feed_forward.experts.down_proj", "");
  const auto llama4 = open_model_checkpoint(transposed.path(), spec_of("llama4_text"));
  ASSERT_FALSE(llama4.has_value());
  EXPECT_EQ(llama4.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(llama4.error().message, HasSubstr("found a stack [experts, in, out] in codes"));
  RawTensor& scales = stack[".weight_scale"];
  scales.shape[0] = 1;
  scales.bytes.resize(scales.bytes.size() / 2);
  const TemporaryDirectory directory;
  stack.write(directory, "model.layers.0.mlp.experts.down_proj", "");
  const auto fewer = open_model_checkpoint(directory.path(), spec_of("mixtral"));
  ASSERT_FALSE(fewer.has_value());
  EXPECT_EQ(fewer.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(fewer.error().message, HasSubstr("down_proj.weight_scale of"));
  EXPECT_THAT(fewer.error().message, HasSubstr("expected dense matrices of 2 experts"));
}

TEST(QuantisedTensors, AreLeftAsElementsWhereTheFileHasElements) {
  QuantisedCase golden = quantised_case("w4a16");
  golden.tensors.clear();
  golden.tensors["weight"] = {"F32", {2, 2}, std::string(16, '\0')};
  const TemporaryDirectory directory;
  const auto checkpoint = open_case(directory, golden);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  EXPECT_FALSE(checkpoint.value()->tensors().find(kQuery)->second.format);
  EXPECT_FALSE(stored_weight_formats(directory.path(), spec_of("llama")).value().any());
}

TEST(QuantisedTensors, HaveTheScaleOfTheirInputsBesideThem) {
  for (const char* name : {"input_scale", "activation_scale"}) {
    QuantisedCase golden = quantised_case("fp8 tensor");
    golden.tensors[name] = {"F32", {}, std::string(4, '\0')};
    golden[name].set(0, 0.25f);
    const TemporaryDirectory directory;
    const auto checkpoint = open_case(directory, golden).value();
    EXPECT_EQ(read_part(*checkpoint, "model.layers.0.self_attn.q_proj.input_scale", {1}, {{0, 1}}), std::vector{0.25f});
  }
}

TEST(StoredWeightFormats, AreThoseOfASpecWhoseWeightsAreBesideItsConfig) {
  const QuantisedCase golden = quantised_case("fp8 tensor");  // scales in float32, in a model of bfloat16
  const TemporaryDirectory directory;
  const nlohmann::json config = {{"model_type", "llama"},         {"hidden_size", 48},
                                 {"intermediate_size", 96},       {"vocab_size", 256},
                                 {"num_hidden_layers", 1},        {"num_attention_heads", 4},
                                 {"torch_dtype", "bfloat16"},     {"num_key_value_heads", 4},
                                 {"max_position_embeddings", 64}, {"quantization_config", golden.config}};
  directory.write("config.json", config.dump());
  const auto expected = read_spec(directory.path() / "config.json");
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  EXPECT_EQ(to_string(expected.value().formats.of(kQuery).value()), "e4m3g0.bf16 e4m3-tensor");
  golden.write(directory);
  directory.write("config.json", config.dump());
  const auto stored = read_spec(directory.path() / "config.json");
  ASSERT_TRUE(stored.has_value()) << stored.error().message;
  EXPECT_EQ(to_string(stored.value().formats.of(kQuery).value()), "e4m3g0 e4m3-tensor");
  EXPECT_FALSE(stored.value().formats.of("lm_head.weight"));
}

TEST(StoredWeightFormats, RefuseExpertsOfALayerThatDiffer) {
  QuantisedCase golden = quantised_case("w4a16");
  std::map<std::string, RawTensor> tensors;
  for (const auto& [part, tensor] : golden.tensors) tensors["0.w1." + part] = tensor;
  tensors["1.w1.weight"] = {"F32", {13, 48}, std::string(13 * 48 * 4, '\0')};
  golden.tensors = tensors;
  const TemporaryDirectory directory;
  golden.write(directory, "model.layers.0.block_sparse_moe.experts");
  const auto formats = stored_weight_formats(directory.path(), spec_of("mixtral"));
  ASSERT_FALSE(formats.has_value());
  EXPECT_EQ(formats.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(formats.error().message,
              HasSubstr("found the format of elements, expected q4g16.bf16 as of the layer's"));
}

}  // namespace
}  // namespace lockstep::checkpoint
