// What the CUDA backend promises about a step besides its results: one replay of a captured graph, nothing allocated,
// an end where a peer does not come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "runtime/backends/cuda/backend.h"
#include "runtime/backends/cuda/node_split.h"
#include "runtime/backends/cuda/step_plan.h"
#include "runtime/trace/observed_communicator.h"
#include "tests/conformance/backend/tiny_model.h"
#include "tests/cuda_stand_in/driver_under_test.h"

namespace lockstep::conformance {
namespace {

using testing::HasSubstr;

cu::CountsOfDriver counts_of_driver() { return cu::counts_of_driver(LOCKSTEP_STAND_IN_CUDA); }

Contents zero_inputs(const graph::Graph& graph) {
  Contents inputs;
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kInput)) {
    inputs.emplace(graph.value(id).name, zeros(graph.value(id).type));
  }
  return inputs;
}

TEST(CudaSteps, ReplayOneGraphAndAllocateNothing) {
  const cu::CountsOfDriver counts = counts_of_driver();
  if (counts == nullptr) GTEST_SKIP() << "this driver does not count its calls";
  const TinyOptions options{.dtype = DType::kBFloat16};
  const TinyRank tiny = make_tiny_rank(options, 0);
  Session session(backends_under_test().front(), tiny.graphs);
  session.set(tiny.contents);
  int64_t steps = 0;
  const Driver driver{[&](size_t graph, const Contents& inputs) {
                        const cu::StandInCounts before = counts();
                        EXPECT_TRUE(session.run(graph, inputs).has_value());
                        const cu::StandInCounts after = counts();
                        EXPECT_EQ(after.graph_launches - before.graph_launches, 1);
                        EXPECT_GT(after.launches - before.launches, 10);
                        EXPECT_GT(after.early_launches - before.early_launches, 5);
                        // Pages of keys and values are mapped by the first step and hold all others' tokens.
                        if (steps++ > 0) {
                          EXPECT_EQ(after.allocating, before.allocating) << steps;
                        }
                        return session.outcome(graph);
                      },
                      [&](const Contents& states) { session.set(states); }};
  generate(driver, options, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {12, 13}}, /*steps=*/8);
  EXPECT_GT(steps, 8);
}

TEST(CudaSteps, TimeTheDeviceOnceSomebodyAsks) {
  const TinyOptions options{.dtype = DType::kBFloat16};
  const TinyRank tiny = make_tiny_rank(options, 0);
  Session session(backends_under_test().front(), tiny.graphs);
  session.set(tiny.contents);
  device::Executable& decode = session.executable(1);
  const Contents inputs = zero_inputs(tiny.graphs[1]);
  EXPECT_GT(decode.launches(), 10);
  ASSERT_TRUE(session.run(1, inputs).has_value());
  EXPECT_EQ(decode.device_time(), device::DeviceTime{});
  decode.time_device();
  ASSERT_TRUE(session.run(1, inputs).has_value());
  const device::DeviceTime once = decode.device_time();
  EXPECT_GT(once.device, Duration::zero());
  EXPECT_GT(once.after, Duration::zero());
  ASSERT_TRUE(session.run(1, inputs).has_value());
  EXPECT_GT(decode.device_time().device, once.device);
  EXPECT_EQ(session.executable(0).device_time(), device::DeviceTime{});
}

TEST(CudaSteps, StartNothingEarlyWhereLaunchesArePlainOrRanksShareAGpu) {
  const cu::CountsOfDriver counts = counts_of_driver();
  if (counts == nullptr) GTEST_SKIP() << "this driver does not count its calls";
  const BackendUnderTest plain{
      .name = "Cuda", .make = [](int) {
        return cuda::make_backend({.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA), .early_launches = false});
      }};
  const std::vector<std::vector<int32_t>> prompts = {{1, 2, 3}};
  const int64_t before = counts().early_launches;
  const Transcript transcript = generate_on(plain, {}, prompts, /*steps=*/3);
  generate_on(backends_under_test().front(), {.ranks = 2}, prompts, /*steps=*/2);
  EXPECT_EQ(counts().early_launches, before);
  const Transcript early = generate_on(backends_under_test().front(), {}, prompts, /*steps=*/3);
  EXPECT_EQ(transcript.tokens, early.tokens);
  EXPECT_GT(counts().early_launches, before);
}

TEST(CudaSteps, FreeEverythingThatTheyTook) {
  const cu::CountsOfDriver counts = counts_of_driver();
  if (counts == nullptr) GTEST_SKIP() << "this driver does not count its calls";
  // The driver's primary context stays, whatever ran before.
  const auto use = [] { generate_on(backends_under_test().front(), {}, {{1, 2, 3}}, /*steps=*/2); };
  use();
  const int64_t before = counts().allocations;
  use();
  EXPECT_EQ(counts().allocations, before);
}

/// Of two ranks that share a GPU.
BackendUnderTest two_on_a_gpu(Duration deadline) {
  return {.name = "Cuda", .make = [deadline](int) {
            return cuda::make_backend(
                {.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA), .ranks_of_device = 2, .deadline = deadline});
          }};
}

TEST(CudaSteps, NameTheRankThatDoesNotCome) {
  const TinyOptions options{.ranks = 2};
  const BackendUnderTest hurried = two_on_a_gpu(std::chrono::milliseconds(200));
  run_ranks(2, [&](int rank, device::Communicator& communicator) {
    const TinyRank tiny = make_tiny_rank(options, rank);
    Session session(hurried, tiny.graphs, &communicator);
    session.set(tiny.contents);
    if (rank == 0) {
      const Result<void> ran = session.run(0, zero_inputs(tiny.graphs[0]));
      ASSERT_FALSE(ran.has_value());
      EXPECT_EQ(ran.error().kind, ErrorKind::kDeadlineExceeded);
      EXPECT_EQ(ran.error().origin_rank, 1);
      EXPECT_THAT(ran.error().message, HasSubstr("found nothing from rank 1"));
    }
    EXPECT_TRUE(communicator.barrier(device::Stream::host()).has_value());  // rank 1's memory stays until here
  });
}

/// Its rank is late with whatever follows a gather.
class LateCommunicator final : public trace::ObservedCommunicator {
 public:
  explicit LateCommunicator(device::Communicator& inner) : ObservedCommunicator(inner) {}

 private:
  void entered(trace::CollectiveKind kind, uint64_t, uint64_t) override {
    is_gather_ = kind == trace::CollectiveKind::kAllGather;
  }
  void left(bool) override {
    const SteadyClock clock;
    const TimePoint end = clock.now() + std::chrono::milliseconds(50);
    while (is_gather_ && clock.now() < end) std::this_thread::yield();  // time for the others to go on
  }

  bool is_gather_ = false;
};

// A kernel that waits for a rank keeps that rank from freeing memory, when they share a GPU.
TEST(CudaSteps, StartOnceEveryRankHasCompiled) {
  const TinyOptions options{.ranks = 2};
  const BackendUnderTest hurried = two_on_a_gpu(std::chrono::seconds(2));
  run_ranks(2, [&](int rank, device::Communicator& communicator) {
    const TinyRank tiny = make_tiny_rank(options, rank);
    LateCommunicator late(communicator);
    Session session(hurried, tiny.graphs, rank == 1 ? &late : &communicator);
    session.set(tiny.contents);
    const Result<void> ran = session.run(0, zero_inputs(tiny.graphs[0]));
    EXPECT_TRUE(ran.has_value()) << ran.error().message;
  });
}

TEST(CudaSteps, EndWhereTheGroupIsAborted) {
  const char* settings = std::getenv("LOCKSTEP_STAND_IN_CUDA");
  const bool is_threaded = settings != nullptr && std::string_view(settings).find("threaded") != std::string_view::npos;
  if (counts_of_driver() != nullptr && !is_threaded) {
    GTEST_SKIP() << "the host looks at the flag while a kernel waits: only with work on threads";
  }
  const TinyOptions options{.ranks = 2};
  AbortFlag abort;
  const BackendUnderTest patient{
      .name = "Cuda", .make = [&](int) {
        return cuda::make_backend(
            {.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA), .ranks_of_device = 2, .abort = &abort});
      }};
  run_ranks(2, [&](int rank, device::Communicator& communicator) {
    const TinyRank tiny = make_tiny_rank(options, rank);
    Session session(patient, tiny.graphs, &communicator);
    session.set(tiny.contents);
    ASSERT_TRUE(communicator.barrier(device::Stream::host()).has_value());  // both are ready
    if (rank == 0) {
      const Result<void> ran = session.run(0, zero_inputs(tiny.graphs[0]));
      ASSERT_FALSE(ran.has_value());
      EXPECT_EQ(ran.error().message, "[test] rank 1 was lost");
    } else {
      abort.raise({ErrorKind::kPeerLost, "[test] rank 1 was lost"});
    }
    EXPECT_TRUE(communicator.barrier(device::Stream::host()).has_value());  // rank 1's memory stays until here
  });
}

/// How many launches of a plan have a kernel whose name begins so.
int64_t launches_of(const graph::Graph& graph, std::string_view kernel, const cuda::StepOptions& options = {}) {
  const device::StepGraph step(graph);
  const cuda::StoreLayout layout = cuda::StoreLayout::of({&step, 1}).value();
  const cuda::StepPlan plan = cuda::plan_step(graph, layout, {}, options).value();
  return std::ranges::count_if(plan.launches,
                               [&](const cuda::Launch& launch) { return launch.kernel.starts_with(kernel); });
}

void expect_same_logits(const Transcript& found, const Transcript& expected) {
  for (size_t prompt = 0; prompt < expected.logits.size(); ++prompt) {
    for (size_t step = 0; step < expected.logits[prompt].size(); ++step) {
      EXPECT_TRUE(is_same(found.logits[prompt].at(step), expected.logits[prompt][step])) << prompt << " " << step;
    }
  }
}

TEST(CudaSteps, GiveManyRowsTheBitsOfFew) {
  std::vector<std::vector<int32_t>> prompts(3);
  for (int32_t i = 0; i < 68; ++i) prompts[i < 40 ? 0 : i < 51 ? 1 : 2].push_back(i * i % 37);
  using enum SecondLayer;
  for (TinyOptions options : {TinyOptions{.dtype = DType::kBFloat16, .ranks = 3},
                              TinyOptions{.dtype = DType::kBFloat16, .second_layer = kWindowAndExperts},
                              TinyOptions{.dtype = DType::kFloat32}}) {
    options.chunk = 72;
    const graph::Graph prefill = make_tiny_rank(options, 0).graphs[0];
    EXPECT_GT(launches_of(prefill, "product_tiles"), 0);
    EXPECT_GT(launches_of(prefill, "attend_rows"), 0);
    const Transcript many = generate_on(backends_under_test().front(), options, prompts, /*steps=*/2);
    options.chunk = 12;
    const Transcript few = generate_on(backends_under_test().front(), options, prompts, /*steps=*/2);
    EXPECT_EQ(many.tokens, few.tokens);
    expect_same_logits(many, few);
  }
}

/// An 8-bit product, and one in blocks, of the first `rows` rows.
Outcome eight_bit_products(int64_t rows) {
  CaseBuilder b({.name = "eight", .ranks = 1, .rank = 0, .rows = rows, .slots = 1});
  const graph::ValueId x = b.input("x", random_tensor({DType::kFloat32, {rows, 70}}, 1));
  const auto weight = [&](const char* name, int64_t group) {
    return b.weight(name, random_tensor({DType::kFloat32, {37, 70}}, 2), WeightFormat{.bits = 8, .group = group});
  };
  b.builder.output("plain",
                   b.builder.linear(x, weight("w", 16), std::nullopt, std::nullopt, graph::Activations::kInt8));
  b.builder.output("leaves",
                   b.builder.linear_blocks(x, weight("v", 12), BlockSplit{{0, 3}}, 30, graph::Activations::kInt8));
  return run_on(backends_under_test().front(), std::move(b).finish());
}

TEST(CudaSteps, MultiplyManyRowsIn8BitsWithTheBitsOfFew) {
  const Outcome few = eight_bit_products(5), many = eight_bit_products(43);
  for (const auto& [name, expected] : few.outputs) {
    const std::vector<std::byte>& found = many.outputs.at(name).bytes;
    EXPECT_TRUE(std::equal(expected.bytes.begin(), expected.bytes.end(), found.begin())) << name;
  }
}

TEST(CudaSteps, SumLargeMessagesInSlicesWithTheBitsOfOneRank) {
  const cuda::StepOptions small{.most_one_shot_bytes = 100};
  const BackendUnderTest sliced{
      .name = "Cuda", .make = [&](int) {
        return cuda::make_backend({.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA), .steps = small});
      }};
  TinyOptions options{.dtype = DType::kBFloat16, .second_layer = SecondLayer::kWindowAndExperts};
  const std::vector<std::vector<int32_t>> prompts = {{5, 9, 1, 30, 22, 7, 0, 36, 4}, {17, 2, 3}};
  const Transcript one = generate_on(backends_under_test().front(), options, prompts, /*steps=*/3);
  for (const int ranks : {2, 3}) {
    options.ranks = ranks;
    const graph::Graph prefill = make_tiny_rank(options, 0).graphs[0];
    EXPECT_GT(launches_of(prefill, "sum_in_slices", small), 1);
    EXPECT_EQ(launches_of(prefill, "sum_in_slices"), 0);
    const Transcript several = generate_on(sliced, options, prompts, /*steps=*/3);
    EXPECT_EQ(several.tokens, one.tokens);
    expect_same_logits(several, one);
  }
}

TEST(CudaSteps, LeaveToTheHostWhatDescribesTheSlots) {
  const TinyRank tiny = make_tiny_rank({}, 0);
  const graph::Graph& decode = tiny.graphs[1];
  const std::vector<cuda::Place> places = cuda::split_nodes(decode).value();
  for (size_t i = 0; i < places.size(); ++i) {
    const graph::Op op = decode.nodes[i].op;
    if (op == graph::Op::kRunningSlots) {
      EXPECT_EQ(places[i], cuda::Place::kPrologue);
    }
    if (op == graph::Op::kLinear || op == graph::Op::kAttention) {
      EXPECT_EQ(places[i], cuda::Place::kBody);
    }
    const bool is_late = op == graph::Op::kAgree || op == graph::Op::kSample || op == graph::Op::kAdvance;
    if (is_late) {
      EXPECT_EQ(places[i], cuda::Place::kEpilogue) << to_string(op);
    }
  }
}

/// A plan that may start launches early.
cuda::StepPlan plan_of(const graph::Graph& graph) {
  const device::StepGraph step(graph);
  const cuda::StoreLayout layout = cuda::StoreLayout::of({&step, 1}).value();
  return cuda::plan_step(graph, layout, {.starts_early = true}).value();
}

TEST(CudaSteps, FuseWhatSurroundsProductsAndAttention) {
  const TinyRank tiny = make_tiny_rank({.dtype = DType::kBFloat16}, 0);
  const graph::Graph& decode = tiny.graphs[1];
  const cuda::StepPlan plan = plan_of(decode);
  const auto nodes = [&](std::initializer_list<graph::Op> ops) {
    return std::ranges::count_if(decode.nodes,
                                 [&](const graph::Node& node) { return std::ranges::find(ops, node.op) != ops.end(); });
  };
  const auto launches = [&](std::string_view kernel) { return launches_of(decode, kernel); };
  using graph::Op;
  const auto layers = nodes({Op::kAttention});
  EXPECT_GT(layers, 1);
  EXPECT_EQ(launches("prepare_heads"), layers);
  EXPECT_EQ(launches("attend_tiles"), layers);
  EXPECT_EQ(launches("product_few"), 6 * layers + 1);  // q, k and v apart; gate and up together
  for (const char* kernel : {"rms_norm", "turn_bf16", "append", "attend_fold", "sum", "map"}) {
    EXPECT_EQ(launches(kernel), 0) << kernel;
  }
}

TEST(CudaSteps, StartEarlyWhatDoesNotWaitForOtherRanks) {
  for (const int ranks : {1, 2}) {
    const TinyRank tiny = make_tiny_rank({.ranks = ranks}, 0);
    const cuda::StepPlan plan = plan_of(tiny.graphs[1]);
    EXPECT_FALSE(plan.launches.front().shape.starts_early);  // behind a copy
    EXPECT_GT(std::ranges::count_if(plan.launches, [](const auto& launch) { return launch.shape.starts_early; }), 5);
    for (const cuda::Launch& launch : plan.launches) {
      EXPECT_FALSE(launch.shape.starts_early && launch.shape.waits_for_blocks) << launch.kernel;
    }
  }
}

}  // namespace
}  // namespace lockstep::conformance
