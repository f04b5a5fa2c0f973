// What the CUDA backend promises of ranks on several hosts besides their results: one graph, and an end where another
// host does not come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/backends/cuda/step_plan.h"
#include "tests/conformance/backend/cuda/pretended_hosts.h"
#include "tests/conformance/backend/tiny_model.h"
#include "tests/cuda_stand_in/fresh_copy.h"

namespace lockstep::conformance {
namespace {

using testing::AllOf;

using testing::HasSubstr;

cuda::StepPlan plan_on(const std::vector<int>& hosts, int rank) {
  const TinyRank tiny = make_tiny_rank({.ranks = static_cast<int>(hosts.size())}, rank);
  const device::StepGraph step(tiny.graphs[1]);
  const cuda::StoreLayout layout = cuda::StoreLayout::of({&step, 1}).value();
  return cuda::plan_step(tiny.graphs[1], layout, {.hosts = device::hosts_from(places_on(hosts))}).value();
}

TEST(CudaHosts, EachRailMovesItsShareOfTheColumns) {
  const cuda::StepPlan one = plan_on({0, 1}, 0);
  const cuda::StepPlan two = plan_on({0, 0, 1, 1}, 0);
  ASSERT_EQ(one.gathers.size(), two.gathers.size());
  ASSERT_GT(one.gathers.size(), 0u);
  for (size_t i = 0; i < one.gathers.size(); ++i) {
    ASSERT_EQ(two.gathers[i].bytes.size(), 2u);
    EXPECT_NEAR(static_cast<double>(two.gathers[i].bytes[0]), static_cast<double>(one.gathers[i].bytes[0]) / 2, 64)
        << i;
  }
  EXPECT_GT(plan_on({0, 0, 1}, 0).gathers.size(), 0u);
  EXPECT_EQ(plan_on({0, 0, 1}, 1).gathers.size(), 0u);  // on no rail
  EXPECT_EQ(plan_on({0, 0, 0}, 1).gathers.size(), 0u);
}

Contents no_tokens(const graph::Graph& graph) {
  Contents inputs;
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kInput)) {
    inputs.emplace(graph.value(id).name, zeros(graph.value(id).type));
  }
  return inputs;
}

TEST(CudaHosts, ReplayOneGraphAndAllocateNothing) {
  const cu::CountsOfDriver counts = cu::counts_of_driver(LOCKSTEP_STAND_IN_CUDA);
  if (counts == nullptr) GTEST_SKIP() << "this driver does not count its calls";
  const BackendUnderTest backend{
      .name = "Cuda", .make = [&](int) -> Result<std::unique_ptr<device::Backend>> {
        return std::unique_ptr<device::Backend>(new OnPretendedHosts(
            {.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA), .exchange_library = LOCKSTEP_STAND_IN_NCCL},
            uneven));
      }};
  run_ranks(3, [&](int rank, device::Communicator& communicator) {
    const TinyRank tiny = make_tiny_rank({.ranks = 3}, rank);
    Session session(backend, tiny.graphs, &communicator);
    session.set(tiny.contents);
    const auto run_all = [&] {
      ASSERT_TRUE(communicator.barrier(device::Stream::host()).has_value());
      const Result<void> ran = session.run(1, no_tokens(tiny.graphs[1]));
      EXPECT_TRUE(ran.has_value()) << ran.error().message;
      ASSERT_TRUE(communicator.barrier(device::Stream::host()).has_value());
    };
    run_all();  // pages of keys and values are mapped
    const cu::StandInCounts before = counts();
    run_all();
    const cu::StandInCounts after = counts();  // of all ranks
    EXPECT_EQ(after.graph_launches - before.graph_launches, 3);
    EXPECT_EQ(after.allocating, before.allocating);
    ASSERT_TRUE(communicator.barrier(device::Stream::host()).has_value());  // all ranks have counted before one frees
  });
}

/// Runs a step on those of four ranks, on two hosts, that are named; each must fail, with the error that is returned.
std::vector<Error> errors_of_step(const cuda::Options& options, std::vector<int> running,
                                  const std::function<void()>& meanwhile = {}) {
  const TinyOptions tiny_options{.ranks = 4};
  const BackendUnderTest backend{.name = "Cuda", .make = [&](int) -> Result<std::unique_ptr<device::Backend>> {
                                   return std::unique_ptr<device::Backend>(new OnPretendedHosts(options, [](int) {
                                     return std::vector<int>{0, 0, 1, 1};
                                   }));
                                 }};
  std::vector<Error> errors(running.size());
  run_ranks(4, [&](int rank, device::Communicator& communicator) {
    const TinyRank tiny = make_tiny_rank(tiny_options, rank);
    Session session(backend, tiny.graphs, &communicator);
    session.set(tiny.contents);
    ASSERT_TRUE(communicator.barrier(device::Stream::host()).has_value());  // every rank is ready
    const auto at = std::ranges::find(running, rank);
    if (at != running.end()) {
      const Result<void> ran = session.run(0, no_tokens(tiny.graphs[0]));
      EXPECT_FALSE(ran.has_value()) << "rank " << rank;
      if (!ran.has_value()) errors[static_cast<size_t>(at - running.begin())] = ran.error();
    } else if (meanwhile) {
      meanwhile();
    }
    EXPECT_TRUE(communicator.barrier(device::Stream::host()).has_value());  // memory of others stays until here
  });
  return errors;
}

/// Whether the host goes on while work waits: only then it can end it.
bool works_beside_the_host() {
  const char* settings = std::getenv("LOCKSTEP_STAND_IN_CUDA");
  return settings != nullptr && std::string_view(settings).find("threaded") != std::string_view::npos;
}

cuda::Options hurried() {
  return {.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA),
          .deadline = std::chrono::milliseconds(300),
          .exchange_library = LOCKSTEP_STAND_IN_NCCL};
}

TEST(CudaHostsThatFail, NameTheRankOfTheOwnHostThatDoesNotCome) {
  if (!works_beside_the_host()) GTEST_SKIP() << "only with work on threads";
  // Rank 1 stays away, so rank 0 gives up first, and the other host learns it from its silence.
  const std::vector<Error> errors = errors_of_step(hurried(), {0});
  EXPECT_EQ(errors[0].kind, ErrorKind::kDeadlineExceeded);
  EXPECT_THAT(errors[0].message, HasSubstr("found nothing from rank 1"));
  EXPECT_EQ(errors[0].origin_rank, 1);
}

TEST(CudaHostsThatFail, NameTheHostsThatDoNotCome) {
  if (!works_beside_the_host()) GTEST_SKIP() << "only with work on threads";
  for (const Error& error : errors_of_step(hurried(), {0, 1})) {
    EXPECT_EQ(error.kind, ErrorKind::kDeadlineExceeded);
    EXPECT_THAT(error.message, HasSubstr("found nothing from other hosts (ranks 2, 3)"));
  }
}

TEST(CudaHostsThatFail, EndWhereTheGroupIsAborted) {
  if (!works_beside_the_host()) GTEST_SKIP() << "only with work on threads";
  AbortFlag abort;
  cuda::Options options = hurried();
  options.deadline = std::chrono::hours(1);
  options.abort = &abort;
  const auto raise = [&] { abort.raise({ErrorKind::kPeerLost, "[test] rank 3 was lost"}); };
  for (const Error& error : errors_of_step(options, {0, 1, 2}, raise)) {
    EXPECT_EQ(error.message, "[test] rank 3 was lost");
  }
}

TEST(CudaHostsThatFail, EndTheStartWhereTheFirstGatherNeverEnds) {
  if (!works_beside_the_host()) GTEST_SKIP() << "only with work on threads";
  cuda::Options options = hurried();
  options.exchange_library = cu::fresh_copy(LOCKSTEP_STAND_IN_NCCL, "LOCKSTEP_STAND_IN_NCCL", "Work:1+=hang");
  run_ranks(2, [&](int rank, device::Communicator& communicator) {
    const TinyRank tiny = make_tiny_rank({.ranks = 2}, rank);
    OnPretendedHosts backend(options, one_each);
    const device::StepGraph step(tiny.graphs[0]);
    const auto store = backend.make_store({&step, 1});
    const auto made = backend.compile(step, *store.value(), {.communicator = &communicator});
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().kind, ErrorKind::kDeadlineExceeded);
    EXPECT_THAT(made.error().message, HasSubstr(fmt::format("found nothing from other hosts (rank {})", 1 - rank)));
    EXPECT_TRUE(communicator.barrier(device::Stream::host()).has_value());
  });
  std::filesystem::remove(options.exchange_library);
  unsetenv("LOCKSTEP_STAND_IN_NCCL");
}

TEST(CudaHostsThatFail, AreRefusedWhereNothingConnectsThem) {
  run_ranks(2, [&](int rank, device::Communicator& communicator) {
    const TinyRank own = make_tiny_rank({.ranks = 2}, rank);
    const auto backend = cuda::make_backend(
        {.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA), .hosts = device::hosts_from(places_on({0, 1}))});
    const device::StepGraph step(own.graphs[0]);
    const auto store = backend.value()->make_store({&step, 1});
    const auto made = backend.value()->compile(step, *store.value(), {.communicator = &communicator});
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(made.error().message, AllOf(HasSubstr("found ranks on 2 hosts and no exchange between them")));
  });
}

}  // namespace
}  // namespace lockstep::conformance
