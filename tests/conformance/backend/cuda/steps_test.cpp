// What the CUDA backend promises about a step besides its results: one replay of a captured graph, nothing allocated,
// an end where a peer does not come.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/backends/cuda/backend.h"
#include "runtime/backends/cuda/node_split.h"
#include "runtime/backends/cuda/step_plan.h"
#include "tests/conformance/backend/tiny_model.h"
#include "tests/cuda_stand_in/driver_under_test.h"
#include "tests/cuda_stand_in/libcuda.h"

namespace lockstep::conformance {
namespace {

using testing::HasSubstr;

using Counts = cu::StandInCounts (*)();

/// Null for a real driver, which does not count.
Counts counts_of_driver() {
  void* library = dlopen(cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA).c_str(), RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Counts>(dlsym(library, "lockstep_stand_in_cuda_counts"));
}

TEST(CudaSteps, ReplayOneGraphAndAllocateNothing) {
  const Counts counts = counts_of_driver();
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

TEST(CudaSteps, StartNothingEarlyWhereLaunchesArePlainOrRanksShareAGpu) {
  const Counts counts = counts_of_driver();
  if (counts == nullptr) GTEST_SKIP() << "this driver does not count its calls";
  const BackendUnderTest plain{.name = "Cuda", .make = [](int) {
                                 return cuda::make_backend({.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA),
                                                            .early_launches = false});
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
  const Counts counts = counts_of_driver();
  if (counts == nullptr) GTEST_SKIP() << "this driver does not count its calls";
  // The driver's primary context stays, whatever ran before.
  const auto use = [] { generate_on(backends_under_test().front(), {}, {{1, 2, 3}}, /*steps=*/2); };
  use();
  const int64_t before = counts().allocations;
  use();
  EXPECT_EQ(counts().allocations, before);
}

TEST(CudaSteps, NameTheRankThatDoesNotCome) {
  const TinyOptions options{.ranks = 2};
  const BackendUnderTest hurried{.name = "Cuda", .make = [](int) {
                                   return cuda::make_backend({.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA),
                                                              .ranks_of_device = 2,
                                                              .deadline = std::chrono::milliseconds(200)});
                                 }};
  run_ranks(2, [&](int rank, device::Communicator& communicator) {
    const TinyRank tiny = make_tiny_rank(options, rank);
    Session session(hurried, tiny.graphs, &communicator);
    session.set(tiny.contents);
    if (rank == 0) {
      Contents inputs;
      for (const graph::ValueId id : tiny.graphs[0].values_of(graph::ValueKind::kInput)) {
        inputs.emplace(tiny.graphs[0].value(id).name, zeros(tiny.graphs[0].value(id).type));
      }
      const Result<void> ran = session.run(0, inputs);
      ASSERT_FALSE(ran.has_value());
      EXPECT_EQ(ran.error().kind, ErrorKind::kDeadlineExceeded);
      EXPECT_EQ(ran.error().origin_rank, 1);
      EXPECT_THAT(ran.error().message, HasSubstr("found nothing from rank 1"));
    }
    EXPECT_TRUE(communicator.barrier(device::Stream::host()).has_value());  // rank 1's memory stays until here
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
    ASSERT_TRUE(communicator.barrier(device::Stream::host()).has_value());  // nobody prepares a step any more
    if (rank == 0) {
      Contents inputs;
      for (const graph::ValueId id : tiny.graphs[0].values_of(graph::ValueKind::kInput)) {
        inputs.emplace(tiny.graphs[0].value(id).name, zeros(tiny.graphs[0].value(id).type));
      }
      const Result<void> ran = session.run(0, inputs);
      ASSERT_FALSE(ran.has_value());
      EXPECT_EQ(ran.error().message, "[test] rank 1 was lost");
    } else {
      abort.raise({ErrorKind::kPeerLost, "[test] rank 1 was lost"});
    }
    EXPECT_TRUE(communicator.barrier(device::Stream::host()).has_value());  // rank 1's memory stays until here
  });
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
  const auto launches = [&](std::string_view kernel) {
    return std::ranges::count_if(plan.launches,
                                 [&](const cuda::Launch& launch) { return launch.kernel.starts_with(kernel); });
  };
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
