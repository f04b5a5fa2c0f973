// Tokens and logits have the same bits in every mode of key/value heads. The modes are heads, replicated, all-gather
// and batch (shards/partition/gqa_mode.h); the reference is one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/model/model_group.h"
#include "tests/model/odd_models.h"

namespace lockstep::model {
namespace {

using partition::GqaMode;

/// Llama of eight query heads of 8 columns.
OddModel llama_with(int key_value_heads) {
  return {fmt::format("llama_{}", key_value_heads),
          fmt::format(R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
            "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": {},
            "vocab_size": 67, "rms_norm_eps": 1e-5, "max_position_embeddings": 256, "rope_theta": 10000.0,
            "hidden_act": "silu", "tie_word_embeddings": false, "torch_dtype": "float32"}})",
                      key_value_heads)};
}

/// Ragged prompts: two with a common beginning, one sampled, more prompts than slots.
std::vector<Row> requests() {
  const auto prompt = [](int seed, int tokens) {
    std::vector<int32_t> ids;
    for (int i = 0; i < tokens; ++i) ids.push_back(3 + (seed * 31 + i * i * 7 + i) % 58);
    return ids;
  };
  std::vector<Row> rows = {{prompt(1, 9), {.max_new_tokens = 6}},
                           {prompt(2, 1), {.max_new_tokens = 4}},
                           {prompt(3, 40), {.max_new_tokens = 3}},
                           {prompt(3, 25), {.max_new_tokens = 5}},
                           {prompt(5, 17), {.max_new_tokens = 6}}};
  rows[3].parameters.sampling = {.do_sample = true, .temperature = 1.3f, .top_p = 0.9f, .seed = 7};
  return rows;
}

struct Cut {
  int ranks = 1;
  GqaMode gqa = GqaMode::kAuto;
  DType dtype = DType::kFloat32;
  int64_t slots = 6;
  int64_t chunk = 16;
  int threads = 1;
  std::optional<checkpoint::MatrixFormat> served = std::nullopt;
};

std::vector<RowAnswer> answers_to(const OddModelDirectory& model, const Cut& cut, const std::string& backend = "cpu") {
  const GroupOptions options{.backend = backend,
                             .ranks = cut.ranks,
                             .threads = cut.threads,
                             .slots = cut.slots,
                             .chunk = cut.chunk,
                             .capacity = 96,
                             .dtype = cut.dtype,
                             .served = cut.served,
                             .logits = actors::Logits::kWanted,
                             .weights = Weights::kRandom,
                             .gqa = cut.gqa};
  auto answer = run_rows(model.path(), options, requests());
  if (answer.has_value()) return std::move(answer.value().rows);
  ADD_FAILURE() << answer.error().message;
  return {};
}

/// The mode that a cut has where `cut.gqa` is wanted.
GqaMode mode_of(const OddModelDirectory& model, const Cut& cut) {
  const checkpoint::ModelSpec spec = checkpoint::read_spec(model.path() / "config.json").value();
  return partition::make_partition(spec, cut.ranks, partition::ExpertSplit::kColumns, partition::Numerics::kInvariant,
                                   cut.gqa)
      .value()
      .gqa;
}

void expect_same_bits(const std::vector<RowAnswer>& found, const std::vector<RowAnswer>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t row = 0; row < found.size(); ++row) {
    EXPECT_EQ(found[row].tokens, expected[row].tokens) << "request " << row;
    ASSERT_EQ(found[row].logits.size(), expected[row].logits.size()) << "request " << row;
    for (size_t i = 0; i < found[row].logits.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(found[row].logits[i]), std::bit_cast<uint32_t>(expected[row].logits[i]))
          << "request " << row << ", logit " << i;
    }
  }
}

class GqaModes : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(KeyValueHeads, GqaModes, ::testing::Values(1, 2, 4));

TEST_P(GqaModes, GiveTheBitsOfOneRank) {
  const OddModelDirectory model(llama_with(GetParam()));
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::vector<RowAnswer> expected = answers_to(model, {.dtype = dtype});
    for (const GqaMode gqa : {GqaMode::kReplicated, GqaMode::kAllGather, GqaMode::kBatch}) {
      for (const int ranks : {2, 3, 4, 8}) {
        SCOPED_TRACE(fmt::format("{}, {} ranks, {}", partition::name_of(gqa), ranks, to_string(dtype)));
        const bool is_over_batch = gqa == GqaMode::kBatch, has_own_heads = GetParam() % ranks == 0;
        EXPECT_EQ(mode_of(model, {.ranks = ranks, .gqa = gqa}),
                  has_own_heads && !is_over_batch ? GqaMode::kHeads : gqa);
        const int64_t slots = is_over_batch && ranks > 3 ? ranks : 6;  // a multiple of the ranks
        expect_same_bits(answers_to(model, {.ranks = ranks, .gqa = gqa, .dtype = dtype, .slots = slots}), expected);
      }
    }
  }
}

TEST(GqaModes, GiveTheBitsOfOneRankWithAnyChunkAndNumberOfThreads) {
  const OddModelDirectory model(llama_with(2));
  const std::vector<RowAnswer> expected = answers_to(model, {.dtype = DType::kBFloat16});
  for (const GqaMode gqa : {GqaMode::kAllGather, GqaMode::kBatch}) {
    for (const int64_t chunk : {1, 7, 64}) {
      const Cut cut{.ranks = 3, .gqa = gqa, .dtype = DType::kBFloat16, .slots = 3, .chunk = chunk, .threads = 2};
      expect_same_bits(answers_to(model, cut), expected);
    }
  }
}

TEST(GqaModes, GiveTheBitsOfOneRankInEveryFamily) {
  // Biases, norms of heads, windows, sinks, soft caps, ALiBi, longrope, experts, parallel branches.
  const std::vector<Cut> cuts = {{.ranks = 4, .gqa = GqaMode::kAllGather, .slots = 4},
                                 {.ranks = 3, .gqa = GqaMode::kBatch}};
  std::vector<std::string> without;
  for (const OddModel& odd : odd_models()) {
    const OddModelDirectory model(odd);
    const std::vector<RowAnswer> expected = answers_to(model, {});
    for (const Cut& cut : cuts) {
      const std::string name = fmt::format("{}, {}", odd.name, partition::name_of(cut.gqa));
      SCOPED_TRACE(name);
      if (mode_of(model, cut) != cut.gqa) without.push_back(name);
      expect_same_bits(answers_to(model, cut), expected);
    }
  }
  // As many key/value heads as query heads: none is shared. Latent attention has one key head; recurrent states are
  // divided by heads.
  EXPECT_THAT(without, ::testing::ElementsAre(
                           "llama_yarn_eleven_heads, all-gather", "qwen3_5_delta_rule, batch",
                           "deepseek_v3_latent_attention, all-gather", "deepseek_v3_latent_attention, batch",
                           "gpt2, all-gather", "gptj_parallel, all-gather", "neox_parallel, all-gather",
                           "neox_sequential, all-gather", "bloom_alibi, all-gather", "opt_projected, all-gather"));
}

TEST(GqaModes, GiveTheBitsOfOneRankWithWeightsInEightBits) {
  const OddModelDirectory model(llama_with(2));
  const std::vector<RowAnswer> expected = answers_to(model, {.served = checkpoint::served_format("int8:32")});
  for (const GqaMode gqa : {GqaMode::kAllGather, GqaMode::kBatch}) {
    expect_same_bits(
        answers_to(model, {.ranks = 4, .gqa = gqa, .slots = 4, .served = checkpoint::served_format("int8:32")}),
        expected);
  }
}

TEST(GqaModes, GiveTheReferenceBackendsTokens) {
  const OddModelDirectory model(llama_with(2));
  const std::vector<RowAnswer> expected = answers_to(model, {}, "reference");
  for (const GqaMode gqa : {GqaMode::kReplicated, GqaMode::kAllGather, GqaMode::kBatch}) {
    const std::vector<RowAnswer> found = answers_to(model, {.ranks = 3, .gqa = gqa}, "reference");
    ASSERT_EQ(found.size(), expected.size());
    for (size_t row = 0; row < found.size(); ++row) {
      EXPECT_EQ(found[row].tokens, expected[row].tokens) << partition::name_of(gqa) << ", request " << row;
      EXPECT_THAT(found[row].logits,
                  ::testing::Pointwise(::testing::FloatNear(1e-4f), expected[row].logits));  // sums in another order
    }
  }
}

}  // namespace
}  // namespace lockstep::model
