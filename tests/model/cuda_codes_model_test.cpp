// Whole models with weights, activations and caches in 4 and 8 bits on the backend for GPUs, over the stand-in of its
// driver: the answers of quantised checkpoints, and the same bits however the work is cut.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/golden.h"
#include "tests/model/on_cuda.h"

namespace lockstep::model {
namespace {

constexpr int64_t kCapacity = 64;

std::filesystem::path quantised_goldens() { return goldens_folder() / "quantised"; }

class QuantisedOnCuda : public ::testing::TestWithParam<ModelAndRanks> {};

TEST_P(QuantisedOnCuda, GivesTheAnswersOfTransformersWithTheDecodedWeights) {
  const auto& [name, ranks] = GetParam();
  const Golden golden = read_golden(quantised_goldens(), name);
  record_quantised(golden, "cuda");
  expect_golden_on_stand_in(golden, {.ranks = ranks, .slots = 3, .chunk = 8, .capacity = kCapacity});
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantisedOnCuda,
                         ::testing::Combine(::testing::ValuesIn(golden_names(quantised_goldens())),
                                            ::testing::Values(1, 2, 3)),
                         name_of);

/// What is kept and multiplied in few bits.
struct Bits {
  std::string name;
  std::string weights;  // empty: elements
  CacheType cache = CacheType::kModel;
};
void PrintTo(const Bits& bits, std::ostream* stream) { *stream << bits.name; }

class CodesOnCuda : public ::testing::TestWithParam<std::tuple<std::string, Bits, DType>> {
 protected:
  std::vector<RowAnswer> run(GroupOptions options) const {
    const auto& [name, bits, dtype] = GetParam();
    options.capacity = kCapacity;
    options.dtype = dtype;
    options.logits = actors::Logits::kWanted;
    options.cache = bits.cache;
    if (!bits.weights.empty()) options.served = checkpoint::served_format(bits.weights);
    auto answers = run_rows(model_.path(), on_stand_in(options), golden_.rows());
    EXPECT_TRUE(answers.has_value()) << answers.error().message;
    return answers.has_value() ? std::move(answers.value().rows) : std::vector<RowAnswer>(golden_.prompts.size());
  }

  const Golden golden_ = read_golden(goldens_folder(), std::get<0>(GetParam()));
  const GoldenModel model_{golden_, {}};
};

TEST_P(CodesOnCuda, GiveTheSameBitsHoweverTheWorkIsCut) {
  const std::vector<RowAnswer> whole = run({.slots = 5, .chunk = 64});
  for (const auto& [ranks, chunk, slots] : {std::tuple{2, 7, 3}, {3, 16, 5}}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks, chunk " << chunk << ", " << slots << " slots");
    const std::vector<RowAnswer> found = run({.ranks = ranks, .slots = slots, .chunk = chunk});
    for (size_t row = 0; row < whole.size(); ++row) {
      EXPECT_EQ(found[row].tokens, whole[row].tokens) << "row " << row;
      ASSERT_FALSE(whole[row].logits.empty());
      EXPECT_TRUE(same_bits(found[row].logits, whole[row].logits)) << "row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CodesOnCuda,
                         ::testing::Combine(::testing::Values("llama_nine_heads_llama3_tied", "mixtral_packed_window",
                                                              "gemma2_alternating_windows"),
                                            ::testing::Values(Bits{"q4", "q4:16"}, Bits{"int8", "int8:16"},
                                                              Bits{"kv_int8", "", CacheType::kInt8},
                                                              Bits{"kv_fp8", "", CacheType::kFp8}),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& tested) {
                           return fmt::format("{}_{}_{}", std::get<0>(tested.param), std::get<1>(tested.param).name,
                                              to_string(std::get<2>(tested.param)));
                         });

}  // namespace
}  // namespace lockstep::model
