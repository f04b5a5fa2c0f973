// What the CUDA backend says about steps without a GPU: launches with their bytes and parameters, memory, kinds of
// GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/backends/cuda/explain.h"
#include "runtime/backends/cuda/gpu_kind.h"
#include "runtime/backends/cuda/launch_facts.h"
#include "runtime/backends/cuda/step_memory.h"
#include "runtime/device/option_row.h"
#include "tests/conformance/backend/attention_cases.h"
#include "tests/conformance/backend/tiny_model.h"

namespace lockstep::conformance {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

/// A step with the bytes of its launches.
struct Facts {
  explicit Facts(const graph::Graph& graph) : layout(cuda::StoreLayout::of({&step_of(graph), 1}).value()) {
    plan = cuda::plan_step(graph, layout, cuda::marked_bases()).value();
    bytes = cuda::bytes_of_launches(graph, layout, plan, cuda::full_caches(graph, layout));
    for (const cuda::LaunchBytes& each : bytes) all += each;
  }

  const device::StepGraph& step_of(const graph::Graph& graph) { return step.emplace(graph); }

  std::optional<device::StepGraph> step;
  cuda::StoreLayout layout;
  cuda::StepPlan plan;
  std::vector<cuda::LaunchBytes> bytes;
  cuda::LaunchBytes all;
};

TEST(CudaFacts, CountEachWeightOfADecodeStepOnceAndTheRowsOfItsTable) {
  const TinyRank tiny = make_tiny_rank({.dtype = DType::kBFloat16}, 0);
  const graph::Graph& decode = tiny.graphs[1];
  const Facts facts(decode);
  double weights = 0;  // in the forms that are read; of the table, the rows of three slots
  for (const auto& [name, weight] : facts.layout.weights) {
    for (const cuda::WeightForm& form : weight.forms) weights += static_cast<double>(bytes_of(weight, form));
  }
  const graph::Node* embedding = nullptr;
  for (const graph::Node& node : decode.nodes) {
    if (node.op == graph::Op::kEmbedding) embedding = &node;
  }
  ASSERT_NE(embedding, nullptr);
  double table = 0;
  for (const graph::ValueId operand : embedding->operands) {
    const graph::Value& value = decode.value(operand);
    if (value.kind != graph::ValueKind::kWeight) continue;
    table = static_cast<double>(
        bytes_of(facts.layout.weights.at(value.name), facts.layout.weights.at(value.name).forms[0]));
  }
  EXPECT_NEAR(facts.all.weights, weights - table + table * 3 / kTinyVocabulary, 1e-6 * weights);
}

TEST(CudaFacts, CountKeysAndValuesOfFullSlotsAndOfWindows) {
  // 2 layers, 3 slots of 48 tokens; keys and values of 2 heads of 8 in 4 bytes. A step also appends a token to each.
  constexpr double kToken = 2 * 2 * 8 * 4;
  const Facts full(make_tiny_rank({}, 0).graphs[1]);
  EXPECT_DOUBLE_EQ(full.all.cache, 2 * kToken * 3 * (48 + 1));
  // The window of the second layer: 6 tokens.
  const Facts window(make_tiny_rank({.second_layer = SecondLayer::kWindowAndExperts}, 0).graphs[1]);
  EXPECT_DOUBLE_EQ(window.all.cache, kToken * 3 * (48 + 1) + kToken * 3 * (6 + 1));
  // A prefill step of 8 rows at the end of one slot.
  const Facts prefill(make_tiny_rank({}, 0).graphs[0]);
  EXPECT_DOUBLE_EQ(prefill.all.cache, 2 * kToken * (48 + 8));
}

TEST(CudaFacts, CountTheExpertsThatRowsChoose) {
  const TinyRank tiny = make_tiny_rank({.second_layer = SecondLayer::kWindowAndExperts}, 0);
  const Facts facts(tiny.graphs[1]);
  double read = 0, held = 0;
  for (size_t i = 0; i < facts.bytes.size(); ++i) {
    if (tiny.graphs[1].nodes[facts.plan.launches[i].node].op == graph::Op::kMoeExperts) read += facts.bytes[i].weights;
  }
  for (const auto& [name, weight] : facts.layout.weights) {
    for (const cuda::WeightForm& form : weight.forms) {
      const auto* stack = std::get_if<cuda::StackedPacking>(&form.packing);
      if (stack != nullptr && stack->parts == 4) held += static_cast<double>(stack->bytes());
    }
  }
  ASSERT_GT(held, 0);
  EXPECT_NEAR(read, held * (1 - 0.5 * 0.5 * 0.5), 0.01 * held);  // three rows choose two of four
}

TEST(CudaFacts, CountTheBytesOfCodesAndOfWhatTheirGroupsHave) {
  CaseBuilder b({.name = "codes", .ranks = 1, .rank = 0, .rows = 2, .slots = 1});
  const auto weight = [&](const char* name, Shape shape, const WeightFormat& format) {
    return b.weight(name, random_tensor({DType::kBFloat16, std::move(shape)}, 1), format);
  };
  const graph::ValueId x = b.input("x", random_tensor({DType::kBFloat16, {2, 128}}, 2));
  const WeightFormat q4{.bits = 4, .group = 32, .offset = GroupOffset::kZeros, .scale = ScaleType::kFloat16};
  const WeightFormat e4m3{.kind = CodeKind::kE4M3, .bits = 8, .group = 128};
  b.builder.output("a", b.builder.linear(x, weight("a", {48, 128}, q4)));
  b.builder.output("b", b.builder.linear(x, weight("b", {16, 128}, e4m3)));
  const Facts facts(std::move(b).finish().graph);
  constexpr double kA = 48 * (128 * 0.5 + 4 * (2 + 1)), kB = 16 * (128 + 4);
  EXPECT_DOUBLE_EQ(facts.all.weights, kA + kB);
  EXPECT_EQ(facts.layout.weight_bytes, 3840 + 2304);  // whole 256 bytes
}

TEST(CudaFacts, CountKeysAndValuesIn8BitsWithTheirScales) {
  const AttentionStep step{.dtype = DType::kBFloat16,
                           .heads = {.map = {0, 0, 1}, .cache = 2, .dim = 24},
                           .slots = 3,
                           .kernel = "decode",
                           .cache = DType::kInt8};
  const Facts facts(append_and_attend(step, {{0, 1, 2}, {5, 6, 7}}).graph);
  EXPECT_DOUBLE_EQ(facts.all.cache, 2 * 2 * (24 + 4) * 3 * (70 + 1));
  EXPECT_EQ(facts.layout.cache_bytes, 3 * 2 * 2 * 2 * 64 * (24 + 4));  // 2 tiles of a slot, 2 caches of 2 heads
}

TEST(CudaFacts, ShowLaunchesWithTheirGridsBytesAndParameters) {
  const TinyRank tiny = make_tiny_rank({.dtype = DType::kBFloat16, .ranks = 2}, 1);
  const std::string text = cuda::explain(tiny.graphs[1]).value();
  EXPECT_THAT(text, AllOf(HasSubstr("decode, rank 1 of 2, rows 3"), HasSubstr("a step of 3 sequence(s) of 48 tokens")));
  EXPECT_THAT(text,
              ContainsRegex("product_few_bf16 +[0-9]+ blocks of +256 threads, [0-9]+ B shared, early; reads [0-9]+ B, "
                            "[0-9]+ of weights; \\[.*w [a-z0-9._]+"));
  EXPECT_THAT(text, ContainsRegex("prepare_heads_bf16 .* of cache; \\[.*cache [a-z0-9._]+"));
  EXPECT_THAT(text, ContainsRegex("sum_of_ranks .*all resident.*peer 0\\+[0-9]+.*peer 1\\+[0-9]+"));
}

TEST(CudaFacts, CountTheMemoryThatTheBackendTakes) {
  const TinyOptions options{.dtype = DType::kBFloat16};
  const TinyRank tiny = make_tiny_rank(options, 0);
  std::vector<device::StepGraph> steps;
  for (const graph::Graph& graph : tiny.graphs) steps.emplace_back(graph);
  const device::DeviceMemory counted = cuda::memory_of_steps(steps).value();
  Session session(backends_under_test().front(), tiny.graphs);
  const device::MemoryReport taken = session.store().memory();
  EXPECT_EQ(counted.weights, taken.weights);
  EXPECT_EQ(counted.workspace, taken.workspace);
  EXPECT_GE(counted.cache.value, 3 * 48 * 2 * 2 * 2 * 8 * 2);  // tiles of 64 tokens, whole pages
  EXPECT_EQ(counted.cache.value % (2 << 20), 0);
}

TEST(CudaFacts, SayWhatToLowerWhereAGpuIsTooSmall) {
  const device::DeviceMemory needed{.weights = Bytes(600), .cache = Bytes(300), .workspace = Bytes(100)};
  EXPECT_TRUE(cuda::check_memory(needed, Bytes(1000), "GPU 0", 2).has_value());
  const Result<void> checked = cuda::check_memory(needed, Bytes(999), "GPU 0 (H)", 2);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(checked.error().message,
              AllOf(HasSubstr("rank 2: GPU 0 (H) is too small: found 999 B for this rank, expected 1000 B (600 B of "
                              "weights, 300 B of keys and values"),
                    HasSubstr("lower --max-seq-len")));
}

TEST(CudaFacts, KnowWhatIsPublishedOfEachKind) {
  const auto choices = device::words_of(cuda::kGpuKindNames);
  ASSERT_EQ(choices.size(), cuda::gpu_kinds().size());
  for (size_t i = 0; i < choices.size(); ++i) EXPECT_EQ(choices[i], cuda::gpu_kinds()[i].name);
  const cuda::GpuKind& h100 = cuda::gpu_kind("h100");
  const auto limits = [&](const device::ProbedWork& work) { return *cuda::facts_of(h100, work).limits; };
  EXPECT_DOUBLE_EQ(limits({}).read_bytes_per_s, 3.35e12);
  EXPECT_DOUBLE_EQ(limits({.dtype = DType::kBFloat16}).flops_per_s, 989.5e12);
  EXPECT_DOUBLE_EQ(limits({.dtype = DType::kFloat32}).flops_per_s, 67e12);
  EXPECT_DOUBLE_EQ(limits({.has_int8_weights = true}).flops_per_s, 1979e12);
  EXPECT_EQ(limits({}).devices_per_host, 8);
  EXPECT_EQ(cuda::facts_of(h100, {}).memory, Bytes(80'000'000'000 - (int64_t{1} << 30)));
  EXPECT_THAT(cuda::facts_of(cuda::gpu_kind("b200"), {}).words, HasSubstr("compute capability 9.0, not 10.0"));
}

}  // namespace
}  // namespace lockstep::conformance
