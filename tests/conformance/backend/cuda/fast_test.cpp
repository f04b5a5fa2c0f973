// Fast numerics: prefill's products by cuBLASLt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/backends/cuda/backend.h"
#include "runtime/backends/cuda/step_plan.h"
#include "tests/conformance/backend/tiny_model.h"
#include "tests/cuda_stand_in/driver_under_test.h"

namespace lockstep::conformance {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const cuda::StepOptions kFast{.uses_blas = true};

bool is_stand_in() { return cu::counts_of_driver(LOCKSTEP_STAND_IN_CUDA) != nullptr; }

/// The stand-in of the driver holds cuBLASLt, too.
cuda::Options fast_options() {
  const std::string driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA);
  return {.driver = driver,
          .steps = kFast,
          .blas = is_stand_in() ? std::filesystem::path(driver) : std::filesystem::path(cu::BlasLibrary::kDefault)};
}

/// Why a machine with a GPU cannot test it: the library is not found. Empty: it can; the stand-in always can.
std::string why_not() {
  if (is_stand_in()) return {};
  const auto made = cuda::make_backend(fast_options());
  return made.has_value() ? std::string() : made.error().message;
}

BackendUnderTest fast_backend() {
  return {.name = "Cuda", .make = [](int) { return cuda::make_backend(fast_options()); }};
}

int64_t products_of_library(const graph::Graph& graph) {
  const device::StepGraph step(graph);
  const cuda::StoreLayout layout = cuda::StoreLayout::of({&step, 1}, {.keeps_rows_of_products = true}).value();
  const cuda::StepPlan plan = cuda::plan_step(graph, layout, {}, kFast).value();
  return std::ranges::count(plan.launches, "cublasLt", &cuda::Launch::kernel);
}

TEST(CudaFast, ComputesPrefillByTheLibraryNearTheInvariantResult) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<std::vector<int32_t>> prompts(2);
  for (int32_t i = 0; i < 60; ++i) prompts[i < 40 ? 0 : 1].push_back(i * i % 37);
  for (const TinyOptions& options : {TinyOptions{.dtype = DType::kFloat32, .chunk = 64},
                                     TinyOptions{.dtype = DType::kBFloat16, .ranks = 3, .chunk = 64},
                                     TinyOptions{.dtype = DType::kFloat16, .chunk = 64}}) {
    SCOPED_TRACE(to_string(options.dtype));
    const TinyRank tiny = make_tiny_rank(options, options.ranks - 1);  // of three, the last has two roots
    EXPECT_GT(products_of_library(tiny.graphs[0]), 6);
    EXPECT_EQ(products_of_library(tiny.graphs[1]), 0);
    const Transcript fast = generate_on(fast_backend(), options, prompts, /*steps=*/1);
    const Transcript invariant = generate_on(backends_under_test().front(), options, prompts, /*steps=*/1);
    for (size_t prompt = 0; prompt < prompts.size(); ++prompt) {
      EXPECT_TRUE(is_near(fast.logits[prompt][0], invariant.logits[prompt][0], tolerance_of(options.dtype, 8)));
    }
  }
}

/// A product with a bias, one with a result in f32, and one of a view of its operand.
Case products(DType dtype) {
  CaseBuilder b({.name = "products", .ranks = 1, .rank = 0, .rows = 40, .slots = 1});
  const auto random = [&](Shape shape, uint64_t seed) { return random_tensor({dtype, std::move(shape)}, seed); };
  const graph::ValueId x = b.input("x", random({40, 48}, 1));
  const graph::ValueId y = b.builder.linear(x, b.weight("w", random({56, 48}, 2)), b.weight("bias", random({56}, 3)));
  b.builder.output("y", y);
  b.builder.output("f32", b.builder.linear(x, b.weight("v", random({33, 48}, 4)), std::nullopt, DType::kFloat32));
  b.builder.output("view", b.builder.linear(b.builder.columns(y, {8, 56}), b.weight("u", random({24, 48}, 5))));
  return std::move(b).finish();
}

TEST(CudaFast, MultipliesWithBiasesViewsAndResultsInF32) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Case c = products(dtype);
    EXPECT_EQ(products_of_library(c.graph), 3);
    expect_near(run_on(fast_backend(), c), run_on(backends_under_test().front(), c), tolerance_of(dtype, 2), "fast");
  }
}

TEST(CudaFast, KeepsWeightsOfManyRowsASecondTime) {
  const graph::Graph graph = products(DType::kBFloat16).graph;
  const device::StepGraph step(graph);
  const int64_t once = cuda::StoreLayout::of({&step, 1}).value().weight_bytes;
  const int64_t twice = cuda::StoreLayout::of({&step, 1}, {.keeps_rows_of_products = true}).value().weight_bytes;
  EXPECT_GE(twice - once, (56 + 33 + 24) * 48 * 2);
}

TEST(CudaFast, PromisesNoInvariantSums) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  EXPECT_FALSE(cuda::make_backend(fast_options()).value()->capabilities().invariant_sums);
  EXPECT_TRUE(backends_under_test().front().make(1).value()->capabilities().invariant_sums);
}

TEST(CudaFast, SaysWhichLibraryIsMissing) {
  cuda::Options options = fast_options();
  options.blas = "/nowhere/libcublasLt.so.13";
  const auto backend = cuda::make_backend(options);
  ASSERT_FALSE(backend.has_value());
  EXPECT_EQ(backend.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(backend.error().message,
              AllOf(HasSubstr("/nowhere/libcublasLt.so.13"), HasSubstr("--cublas"), HasSubstr("omit --numerics fast")));
}

}  // namespace
}  // namespace lockstep::conformance
