#include "runtime/checkpoint/stored_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/counting_tensor.h"
#include "tests/runtime/checkpoint/stored_testing.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

using model::StoredTensor;
using ::testing::HasSubstr;

TEST(StoredTensors, KeepTheirNamesAndShapesWhereTheyAreLlamas) {
  const TemporaryDirectory directory;
  const auto checkpoint =
      open_with(directory, "llama",
                {counting("lm_head.weight", {5, kHidden}), counting("model.embed_tokens.weight", {5, kHidden}, 100),
                 counting("model.layers.0.self_attn.q_proj.weight", {6, kHidden}), counting("model.norm.weight", {3})})
          .value();
  const auto in_order = [](int64_t row, int64_t column) { return static_cast<float>(row * kHidden + column); };
  expect_matrix(*checkpoint, "lm_head.weight", {5, kHidden}, in_order);
  expect_matrix(*checkpoint, "model.layers.0.self_attn.q_proj.weight", {6, kHidden}, in_order);
  expect_vector(*checkpoint, "model.norm.weight", {0, 1, 2});
  EXPECT_TRUE(checkpoint->contains("model.embed_tokens.weight"));
  EXPECT_FALSE(checkpoint->contains("model.layers.0.self_attn.q_proj.bias"));
  EXPECT_EQ(checkpoint->tensors().size(), 4u);
}

TEST(StoredTensors, AreFoundBehindEveryPrefixOfTheirFamily) {
  struct Case {
    std::string model_type, prefix, embedding, norm_of_layer, head = "lm_head.weight";
  };
  for (const Case& c :
       {Case{"llama", "", "embed_tokens", "layers.0.input_layernorm"},
        Case{"gemma3_text", "language_model.model.", "embed_tokens", "layers.0.input_layernorm",
             "language_model.lm_head.weight"},
        Case{"gemma3_text", "model.language_model.", "embed_tokens", "layers.0.input_layernorm"},
        Case{"gpt2", "", "wte", "h.0.ln_1"}, Case{"gpt2", "transformer.", "wte", "h.0.ln_1"},
        Case{"gptj", "transformer.", "wte", "h.0.ln_1"}, Case{"bloom", "", "word_embeddings", "h.0.input_layernorm"},
        Case{"bloom", "transformer.", "word_embeddings", "h.0.input_layernorm"},
        Case{"opt", "decoder.", "embed_tokens", "layers.0.self_attn_layer_norm"},
        Case{"opt", "model.decoder.", "embed_tokens", "layers.0.self_attn_layer_norm"},
        Case{"gpt_neox", "gpt_neox.", "embed_in", "layers.0.input_layernorm", "embed_out.weight"},
        Case{"gpt_neox", "gpt_neox.", "embed_in", "layers.0.input_layernorm"}}) {
    const TemporaryDirectory directory;
    const auto checkpoint = open_with(directory, c.model_type,
                                      {counting(c.prefix + c.embedding + ".weight", {4, kHidden}),
                                       counting(c.prefix + c.norm_of_layer + ".weight", {kHidden}),
                                       counting(c.head, {4, kHidden}), counting("vision_tower.weight", {1})})
                                .value();
    const auto names = {"lm_head.weight", "model.embed_tokens.weight", "model.layers.0.input_layernorm.weight"};
    for (const char* name : names) EXPECT_TRUE(checkpoint->contains(name)) << c.model_type << c.prefix << name;
    EXPECT_EQ(checkpoint->tensors().size(), names.size());
  }
}

TEST(StoredTensors, OfGemma4AreFoundInACheckpointForImages) {
  const TemporaryDirectory directory;
  const std::string prefix = "model.language_model.", layer = prefix + "layers.0.";
  const auto checkpoint = open_with(directory, "gemma4_text",
                                    {counting(prefix + "embed_tokens.weight", {4, kHidden}),
                                     counting(prefix + "embed_tokens_per_layer.weight", {4, 3}),
                                     counting(layer + "per_layer_input_gate.weight", {3, kHidden}),
                                     counting(layer + "layer_scalar", {1}), counting("vision_tower.weight", {1})})
                              .value();
  for (const char* name : {"model.embed_tokens.weight", "model.embed_tokens_per_layer.weight",
                           "model.layers.0.per_layer_input_gate.weight", "model.layers.0.layer_scalar"}) {
    EXPECT_TRUE(checkpoint->contains(name)) << name;
  }
}

TEST(StoredTensors, OfGpt2AreTransposedAndTheirThirdsAreQKAndV) {
  const TemporaryDirectory directory;
  const auto checkpoint =
      open_with(directory, "gpt2",
                {counting("h.0.attn.c_attn.bias", {18}), counting("h.0.attn.c_attn.weight", {kHidden, 18}),
                 counting("h.0.attn.c_proj.weight", {kHidden, kHidden}), counting("h.0.mlp.c_fc.weight", {kHidden, 10}),
                 counting("wpe.weight", {3, 4})})
          .value();
  const std::string layer = "model.layers.0.";
  const std::string names[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  for (int part = 0; part < 3; ++part) {
    expect_matrix(*checkpoint, layer + names[part] + ".weight", {kHidden, kHidden},
                  [=](int64_t out, int64_t in) { return static_cast<float>(in * 18 + part * 6 + out); });
  }
  expect_vector(*checkpoint, layer + "self_attn.k_proj.bias", {6, 7, 8, 9, 10, 11});
  expect_matrix(*checkpoint, layer + "self_attn.o_proj.weight", {kHidden, kHidden},
                [](int64_t out, int64_t in) { return static_cast<float>(in * kHidden + out); });
  expect_matrix(*checkpoint, layer + "mlp.up_proj.weight", {10, kHidden},
                [](int64_t out, int64_t in) { return static_cast<float>(in * 10 + out); });
  expect_matrix(*checkpoint, "model.embed_positions.weight", {3, 4},
                [](int64_t row, int64_t column) { return static_cast<float>(row * 4 + column); });
}

TEST(StoredTensors, AreTransposedInTilesWhenTheyAreLarge) {
  for (const Shape& stored : {Shape{900, 700}, Shape{30, 20000}, Shape{20000, 30}}) {
    const TemporaryDirectory directory;
    const auto checkpoint = open_with(directory, "gpt2", {counting("h.0.mlp.c_fc.weight", stored)}).value();
    const Shape shape{stored[1], stored[0]};
    expect_matrix(*checkpoint, "model.layers.0.mlp.up_proj.weight", shape,
                  [&](int64_t out, int64_t in) { return static_cast<float>(in * shape[0] + out); });
  }
}

TEST(StoredTensors, OfNeoxAndBloomHaveQKAndVOfEachHeadInTurn) {
  for (const auto& [model_type, stored] :
       {std::pair<std::string, std::string>{"gpt_neox", "gpt_neox.layers.0.attention.query_key_value"},
        {"bloom", "transformer.h.0.self_attention.query_key_value"}}) {
    const TemporaryDirectory directory;
    const auto checkpoint = open_with(directory, model_type,
                                      {counting(stored + ".bias", {18}), counting(stored + ".weight", {18, kHidden})})
                                .value();
    const std::string names[] = {"q_proj", "k_proj", "v_proj"};
    for (int part = 0; part < 3; ++part) {
      const std::string name = "model.layers.0.self_attn." + names[part];
      const auto stored_row = [=](int64_t row) { return (row / kHead * 3 + part) * kHead + row % kHead; };
      expect_matrix(*checkpoint, name + ".weight", {6, kHidden}, [=](int64_t row, int64_t column) {
        return static_cast<float>(stored_row(row) * kHidden + column);
      });
      std::vector<float> bias;
      for (int64_t row = 0; row < 6; ++row) bias.push_back(static_cast<float>(stored_row(row)));
      expect_vector(*checkpoint, name + ".bias", bias);
    }
  }
}

TEST(StoredTensors, OfPhi3AreFusedOneAfterAnother) {
  const TemporaryDirectory directory;
  const auto checkpoint = open_with(directory, "phi3",
                                    {counting("model.layers.0.self_attn.qkv_proj.weight", {10, kHidden}),
                                     counting("model.layers.0.mlp.gate_up_proj.weight", {8, kHidden})})
                              .value();
  const auto from_row = [](int64_t first) {
    return [first](int64_t row, int64_t column) { return static_cast<float>((first + row) * kHidden + column); };
  };
  const std::string layer = "model.layers.0.";
  expect_matrix(*checkpoint, layer + "self_attn.q_proj.weight", {6, kHidden}, from_row(0));
  expect_matrix(*checkpoint, layer + "self_attn.k_proj.weight", {2, kHidden}, from_row(6));
  expect_matrix(*checkpoint, layer + "self_attn.v_proj.weight", {2, kHidden}, from_row(8));
  expect_matrix(*checkpoint, layer + "mlp.gate_proj.weight", {4, kHidden}, from_row(0));
  expect_matrix(*checkpoint, layer + "mlp.up_proj.weight", {4, kHidden}, from_row(4));
}

TEST(StoredTensors, OfASliceAreReadWithoutTheBytesOfOthers) {
  const TemporaryDirectory directory;
  const auto gpt2 = open_with(directory, "gpt2", {counting("h.0.attn.c_attn.weight", {kHidden, 18})}).value();
  int64_t before = gpt2->bytes_read();
  read_part(*gpt2, "model.layers.0.self_attn.v_proj.weight", {6, kHidden}, {{2, 4}, {0, kHidden}});
  EXPECT_EQ(gpt2->bytes_read() - before, 4 * 2 * kHidden);
  const auto bloom =
      open_with(directory, "bloom", {counting("h.0.self_attention.query_key_value.weight", {18, kHidden})}).value();
  before = bloom->bytes_read();
  read_part(*bloom, "model.layers.0.self_attn.k_proj.weight", {6, kHidden}, {{1, 5}, {2, 4}});
  EXPECT_EQ(bloom->bytes_read() - before, 4 * 4 * 2);
}

TEST(StoredTensors, AreComparedByTheirCanonicalNames) {
  const TemporaryDirectory directory;
  const auto checkpoint = open_with(directory, "gpt2",
                                    {counting("h.0.ln_1.weight", {kHidden}), counting("lm_head.weight", {4, kHidden}),
                                     counting("wpe.weight", {4, kHidden}, 1), counting("wte.weight", {4, kHidden})})
                              .value();
  EXPECT_TRUE(hold_equal_values(*checkpoint, "lm_head.weight", "model.embed_tokens.weight").value());
  EXPECT_FALSE(hold_equal_values(*checkpoint, "lm_head.weight", "model.embed_positions.weight").value());
}

TEST(OwnHead, IsThereWhereAnyOfTheRowsDiffersFromTheEmbedding) {
  const TemporaryDirectory directory;
  const auto own_head = [&](float last, Range rows) {
    model::StoredTensor head = counting("lm_head.weight", {4, kHidden});
    std::memcpy(&head.bytes[head.bytes.size() - sizeof last], &last, sizeof last);
    const auto tensors = {counting("h.0.ln_1.weight", {kHidden}), head, counting("wte.weight", {4, kHidden})};
    EXPECT_TRUE(open_with(directory, "gpt2", tensors).has_value());
    return holds_own_head(directory.path(), spec_of("gpt2"), rows).value();
  };
  EXPECT_FALSE(own_head(/*last=*/23, {0, 4}));
  EXPECT_TRUE(own_head(/*last=*/24, {0, 4}));
  EXPECT_TRUE(own_head(/*last=*/24, {3, 4}));
  EXPECT_FALSE(own_head(/*last=*/24, {0, 3}));  // another rank's rows
}

TEST(OwnHead, IsNotThereWhereTheFilesHoldOneOfTheTwo) {
  const TemporaryDirectory directory;
  const model::StoredTensor norm = counting("h.0.ln_1.weight", {kHidden});
  for (const char* name : {"wte.weight", "lm_head.weight"}) {
    ASSERT_TRUE(open_with(directory, "gpt2", {norm, counting(name, {4, kHidden}, 5)}).has_value());
    EXPECT_FALSE(holds_own_head(directory.path(), spec_of("gpt2"), {0, 4}).value());
  }
  ModelSpec tied = spec_of("gpt2");
  EXPECT_FALSE(open_model_checkpoint(directory.path(), tied).value()->contains("model.embed_tokens.weight"));
  tied.tied_embeddings = true;  // the head stands for the embedding
  const auto checkpoint = open_model_checkpoint(directory.path(), tied).value();
  expect_matrix(*checkpoint, "model.embed_tokens.weight", {4, kHidden},
                [](int64_t row, int64_t column) { return static_cast<float>(5 + row * kHidden + column); });
}

TEST(StoredTensors, ThatAreMissingAreNamedWithWhatWasLookedFor) {
  const TemporaryDirectory directory;
  const auto checkpoint =
      open_with(directory, "mixtral", {counting("model.layers.0.input_layernorm.weight", {kHidden})}).value();
  std::byte one[4];
  const std::vector<Range> first = {{0, 1}, {0, 1}};
  const auto expert =
      checkpoint->read("model.layers.0.mlp.experts.1.up_proj.weight", {4, kHidden}, first, DType::kFloat32, one);
  ASSERT_FALSE(expert.has_value());
  EXPECT_EQ(expert.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(expert.error().message,
              HasSubstr("tensor model.layers.0.mlp.experts.1.up_proj.weight of " + directory.path().string() +
                        ": found no tensor model.layers.0.block_sparse_moe.experts.1.w3.weight or "
                        "model.layers.0.mlp.experts.gate_up_proj among 1"));
  const auto other = checkpoint->read("model.layers.0.wkv.weight", {4, kHidden}, first, DType::kFloat32, one);
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, HasSubstr("no tensor that this family could keep it in"));
}

TEST(StoredTensors, OfAnotherShapeAreRefusedUnderBothNames) {
  const TemporaryDirectory directory;
  const auto checkpoint = open_with(directory, "gpt2", {counting("h.0.mlp.c_fc.weight", {kHidden, 10})}).value();
  std::byte one[4];
  const std::vector<Range> first = {{0, 1}, {0, 1}};
  const auto read = checkpoint->read("model.layers.0.mlp.up_proj.weight", {12, kHidden}, first, DType::kFloat32, one);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(read.error().message, HasSubstr("model.layers.0.mlp.up_proj.weight (h.0.mlp.c_fc.weight)"));
  EXPECT_THAT(read.error().message, HasSubstr("found shape [10,6], expected [12,6]"));
}

TEST(OpenModelCheckpoint, RefusesWhatCannotBeDividedAsTheConfigSays) {
  struct Case {
    std::string model_type;
    StoredTensor tensor;
    std::string message;
  };
  const std::string experts = "model.layers.0.mlp.experts.";
  for (const Case& c :
       {Case{"gpt2", counting("h.0.attn.c_attn.weight", {kHidden, 12}), "found shape [6,12]"},
        Case{"gpt2", counting("h.0.attn.c_attn.weight", {2, 3, 3}), "a matrix or a vector with elements"},
        Case{"gpt2", counting("h.0.attn.c_attn.weight", {kHidden, 0}), "found shape [6,0], expected a matrix"},
        Case{"bloom", counting("h.0.self_attention.query_key_value.bias", {17}), "3 query and 3 key/value heads of 2"},
        Case{"phi3", counting("model.layers.0.mlp.gate_up_proj.weight", {7, kHidden}), "gate and up"},
        Case{"mixtral", counting(experts + "gate_up_proj", {3, 8, kHidden}), "the first of 2 experts"},
        Case{"gpt_oss", counting(experts + "gate_up_proj", {8, kHidden}), "3 dimensions"},
        Case{"gpt_oss", counting(experts + "gate_up_proj_bias", {kExperts, 8, 1}), "2 dimensions"},
        Case{"gpt_oss", counting(experts + "down_proj_blocks", {kExperts, 8, 1, 16}), "_blocks and _scales together"},
        Case{"llama", counting("transformer.h.0.ln_1.weight", {kHidden}),
             "found no tensor model.layers.0.… or language_model.model.layers.0.… or"}}) {
    const TemporaryDirectory directory;
    const auto opened = open_with(directory, c.model_type, {c.tensor});
    ASSERT_FALSE(opened.has_value()) << c.tensor.name;
    EXPECT_EQ(opened.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(opened.error().message, HasSubstr(c.message));
    EXPECT_THAT(opened.error().message, HasSubstr("do not belong together"));
  }
}

TEST(StoredTensors, AreBestReadManyRowsAtATimeWhereTheFileKeepsThemTransposed) {
  const TemporaryDirectory directory;
  const auto gpt2 = open_with(directory, "gpt2",
                              {counting("wte.weight", {5, kHidden}), counting("h.0.mlp.c_fc.weight", {kHidden, 24}),
                               counting("h.0.mlp.c_fc.bias", {24})})
                        .value();
  EXPECT_EQ(gpt2->rows_at_once("model.layers.0.mlp.up_proj.weight"), 1024);  // a page of floats
  EXPECT_EQ(gpt2->rows_at_once("model.layers.0.mlp.up_proj.bias"), 1);
  EXPECT_EQ(gpt2->rows_at_once("model.embed_tokens.weight"), 1);
  EXPECT_EQ(gpt2->rows_at_once("no such tensor"), 1);
  const std::vector<Range> part = {{3, 20}, {1, 4}};
  gpt2->expect("model.layers.0.mlp.up_proj.weight", part);
  gpt2->expect("model.embed_tokens.weight", part);
  gpt2->expect("no such tensor", part);
  EXPECT_EQ(read_part(*gpt2, "model.layers.0.mlp.up_proj.weight", {24, kHidden}, part).front(), 1 * 24 + 3);
}

TEST(StoredTensors, OfLatentAttentionAreKeysTransposedByHeadAndValues) {
  // Three heads of 2 rows for keys and 3 for values, each of 4 columns.
  const std::string layer = "model.layers.0.self_attn.";
  const TemporaryDirectory directory;
  const auto checkpoint = open_with(directory, "deepseek_v3",
                                    {counting(layer + "kv_b_proj.weight", {kQueryHeads * 5, 4}),
                                     counting(layer + "kv_a_proj_with_mqa.weight", {6, kHidden}, 100)})
                              .value();
  expect_matrix(*checkpoint, layer + "latent_key_proj.weight", {kQueryHeads * 4, 2},
                [](int64_t row, int64_t column) { return static_cast<float>((row / 4 * 5 + column) * 4 + row % 4); });
  expect_matrix(*checkpoint, layer + "latent_value_proj.weight", {kQueryHeads * 3, 4}, [](int64_t row, int64_t column) {
    return static_cast<float>((row / 3 * 5 + 2 + row % 3) * 4 + column);
  });
  expect_matrix(*checkpoint, layer + "kv_a_proj.weight", {6, kHidden},
                [](int64_t row, int64_t column) { return 100 + static_cast<float>(row * kHidden + column); });
  const auto other = open_with(directory, "deepseek_v3", {counting(layer + "kv_b_proj.weight", {14, 4})});
  EXPECT_THAT(other.error().message, HasSubstr("kv_b_proj.weight"));
}

}  // namespace
}  // namespace lockstep::checkpoint
