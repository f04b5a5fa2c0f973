// Products with weights in codes, and inputs that are rounded for them.
#include "tests/conformance/backend/backend_test.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;

class CodedProducts : public EveryBackendAndType {
 protected:
  bool has_all_formats() const {
    return backend().make(/*threads=*/1).value()->capabilities().coded_weights == device::CodedWeights::kAll;
  }
};
LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(CodedProducts);

graph::GraphHeader header(int64_t rows) { return {.name = "test", .ranks = 1, .rank = 0, .rows = rows, .slots = 1}; }

/// T rows, N results, K columns.
struct ProductShape {
  int64_t t, n, k;
};
constexpr ProductShape kShapes[] = {{1, 1, 1},   {1, 17, 33},   {2, 16, 64},   {3, 5, 63},    {4, 33, 65},
                                    {7, 65, 31}, {13, 48, 129}, {16, 16, 256}, {33, 130, 257}};

TEST_P(CodedProducts, MultiplyIn8BitIntegers) {
  for (const auto& [t, n, k] : kShapes) {
    for (const int64_t group : {4, 32, 128}) {
      SCOPED_TRACE(testing::Message() << "T=" << t << " N=" << n << " K=" << k << " by groups of " << group);
      CaseBuilder b(header(t));
      const ValueId x = b.input("x", random({t, k}, 1));
      const WeightFormat format{.bits = 8, .group = group};
      const ValueId w = b.weight("w", random({n, k}, 2), format), v = b.weight("v", random({n, k}, 4), format);
      const ValueId bias = b.weight("bias", random({n}, 3, /*scale=*/4));
      b.builder.output("y", b.builder.linear(x, w, bias, std::nullopt, graph::Activations::kInt8));
      b.builder.output("roots",
                       b.builder.linear_blocks(x, v, BlockSplit{{0, (k + 23) / 24}}, 24, graph::Activations::kInt8));
      expect_case_conforms(std::move(b).finish());
    }
  }
}

/// One format of each kind, with the scales that files have.
constexpr WeightFormat kFormats[] = {
    {.bits = 4, .group = 32, .scale = ScaleType::kFloat16},
    {.bits = 4, .group = 20, .offset = GroupOffset::kZeros, .scale = ScaleType::kBFloat16},
    {.bits = 4, .group = 32, .offset = GroupOffset::kMinima, .scale = ScaleType::kFloat32},
    {.bits = 8, .group = 16, .scale = ScaleType::kFloat32},
    {.bits = 8, .group = 128, .offset = GroupOffset::kZeros, .scale = ScaleType::kFloat16},
    {.bits = 8, .group = 32, .offset = GroupOffset::kMinima, .scale = ScaleType::kFloat16},
    {.kind = CodeKind::kE2M1, .bits = 4, .group = 32, .scale = ScaleType::kPowerOfTwo},
    {.kind = CodeKind::kE4M3, .bits = 8, .group = 128, .scale = ScaleType::kFloat32},
    {.bits = 4, .group = 1, .scale = ScaleType::kFloat16}};

constexpr ProductShape kFewShapes[] = {{1, 17, 33}, {4, 33, 65}, {13, 48, 129}};

TEST_P(CodedProducts, MultiplyByWeightsInCodes) {
  if (!has_all_formats()) GTEST_SKIP() << backend().name << " does not multiply by all formats";
  for (const auto& [t, n, k] : kFewShapes) {
    for (const WeightFormat& format : kFormats) {
      for (const auto activations : {graph::Activations::kAsTheyAre, graph::Activations::kInt8}) {
        const bool are_bytes = activations == graph::Activations::kInt8;
        if (are_bytes && (format.kind == CodeKind::kE4M3 || format.group == 1)) continue;
        SCOPED_TRACE(testing::Message() << "T=" << t << " N=" << n << " K=" << k << " " << to_string(format)
                                        << (are_bytes ? " times int8" : ""));
        CaseBuilder b(header(t));
        const ValueId x = b.input("x", random({t, k}, 1));
        const ValueId w = b.weight("w", random({n, k}, 2), format), v = b.weight("v", random({n, k}, 4), format);
        b.builder.output("y", b.builder.linear(x, w, std::nullopt, std::nullopt, activations));
        b.builder.output("roots", b.builder.linear_blocks(x, v, BlockSplit{{0, (k + 47) / 48}}, 48, activations));
        expect_case_conforms(std::move(b).finish());
      }
    }
  }
}

TEST_P(CodedProducts, TakeColumnsInTheOrderOfAWeight) {
  if (!has_all_formats()) GTEST_SKIP() << backend().name << " does not multiply by all formats";
  for (const int64_t columns : {1, 33, 1025}) {
    for (const int64_t taken : {int64_t{1}, columns / 2 + 1, columns + 3}) {
      SCOPED_TRACE(testing::Message() << taken << " of " << columns << " columns");
      CaseBuilder b(header(/*rows=*/5));
      std::vector<double> order;
      for (int64_t i = 0; i < taken; ++i) order.push_back(static_cast<double>((i * 7 + 3) % columns));
      const ValueId numbers = b.weight("order", tensor(DType::kFloat32, {taken}, order));
      b.builder.output("y", b.builder.take_columns(b.input("x", random({5, columns}, 1)), numbers));
      expect_case_conforms(std::move(b).finish());
    }
  }
}

TEST_P(CodedProducts, EmbedFromATableInCodesThatTheHeadMultiplies) {
  if (!has_all_formats()) GTEST_SKIP() << backend().name << " does not multiply by all formats";
  for (const WeightFormat& format : kFormats) {
    SCOPED_TRACE(to_string(format));
    CaseBuilder b(header(/*rows=*/3));
    const ValueId table = b.weight("table", random({20, 70}, 1), format);
    const ValueId ids = b.input("ids", int_tensor({3}, {19, 0, 7}));
    b.builder.output("rows", b.builder.embedding(ids, table, 0));
    b.builder.output("logits",
                     b.builder.linear(b.input("x", random({3, 70}, 2)), table, std::nullopt, DType::kFloat32));
    expect_case_conforms(std::move(b).finish());
  }
}

TEST_P(CodedProducts, RoundToCodesTimesAScale) {
  if (!has_all_formats()) GTEST_SKIP() << backend().name << " does not multiply by all formats";
  for (const char* const codes : {"int8", "e4m3"}) {
    for (const int64_t width : {1, 33, 300}) {
      CaseBuilder b(header(/*rows=*/4));
      const ValueId x = b.input("x", random({4, width}, 1, /*scale=*/3));
      b.builder.output("by_row", b.builder.fake_quantise(x, codes));
      b.builder.output("by_group", b.builder.fake_quantise(x, codes, 128));
      // A scale so small that some are clamped.
      const ValueId scale = b.builder.constant("scale", {codes == std::string("int8") ? 0.01f : 0.004f});
      b.builder.output("by_scale", b.builder.fake_quantise(x, codes, std::nullopt, scale));
      b.builder.output("zeros", b.builder.fake_quantise(b.builder.scale(x, 0.0), codes));
      expect_case_conforms(std::move(b).finish());
    }
  }
}

}  // namespace
}  // namespace lockstep::conformance
