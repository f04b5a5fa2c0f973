#include "runtime/backends/neuron/group_compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "tests/conformance/backend/session.h"

namespace lockstep::neuron {
namespace {

using conformance::run_ranks;
using ::testing::HasSubstr;

/// The result of each rank.
std::vector<Error> errors_of(int ranks, const std::function<Result<void>(int, device::Communicator&)>& work) {
  std::vector<Error> errors(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](int rank, device::Communicator& communicator) {
    const Result<void> result = work(rank, communicator);
    if (!result.has_value()) errors[static_cast<size_t>(rank)] = result.error();
  });
  return errors;
}

TEST(AgreeOnModule, IsQuietWhereAllHaveTheSame) {
  for (const Error& error : errors_of(3, [](int, device::Communicator& group) {
         return agree_on_module(&group, "decode", std::string(64, 'a'));
       })) {
    EXPECT_EQ(error.message, "");
  }
  EXPECT_TRUE(agree_on_module(nullptr, "decode", "alone").has_value());
}

TEST(AgreeOnModule, NamesTheRankThatDiffersOnEveryRank) {
  const auto errors = errors_of(3, [](int rank, device::Communicator& group) {
    return agree_on_module(&group, "decode", std::string(64, rank == 1 ? 'b' : 'a'));
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.kind, ErrorKind::kFailedPrecondition);
    EXPECT_EQ(error.origin_rank, 1);
    EXPECT_THAT(error.message, HasSubstr("found the modules bbbbbbbbbbbbbbbb on ranks 1, expected aaaaaaaaaaaaaaaa"));
  }
}

TEST(GetTogether, WaitsForTheSlowestRank) {
  std::vector<std::string> origins(2);
  run_ranks(2, [&](int rank, device::Communicator& group) {
    std::mutex never_contended;
    const auto get = [&]() -> Result<device::Artifact> {
      std::unique_lock lock(never_contended);
      std::condition_variable pause;
      if (rank == 1) pause.wait_for(lock, std::chrono::milliseconds(30));
      return device::Artifact{.path = "x", .origin = rank == 1 ? "made" : "found"};
    };
    origins[static_cast<size_t>(rank)] = get_together(&group, "decode", get).value().origin;
  });
  EXPECT_EQ(origins, (std::vector<std::string>{"found", "made"}));
}

TEST(GetTogether, EndsEveryRankWhenOneFails) {
  const auto errors = errors_of(2, [](int rank, device::Communicator& group) -> Result<void> {
    LOCKSTEP_TRY(const auto artifact, get_together(&group, "decode", [&]() -> Result<device::Artifact> {
                   if (rank == 1) return Error{ErrorKind::kResourceExhausted, "no room for the compiler"};
                   return device::Artifact{};
                 }));
    return ok();
  });
  EXPECT_THAT(errors[0].message, HasSubstr("rank 1 has no NEFF"));
  EXPECT_EQ(errors[0].origin_rank, 1);
  EXPECT_EQ(errors[1].kind, ErrorKind::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::neuron
