// Operations that cannot complete: ends by abort, by deadline, and permanent failure.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <thread>

#include "tests/conformance/communicator/operations.h"

namespace lockstep::conformance {
namespace {

using ::testing::HasSubstr;

TEST_P(CommunicatorConformance, EndsAWaitWithTheReasonOfTheAbort) {
  for (const NamedOperation& operation : kOperations) {
    run_ranks(GetParam(), [&](Peer& peer) {
      Ends ends;
      const auto communicator = make(GetParam(), peer, ends);
      if (peer.size() == 1 || peer.rank() == peer.size() - 1) return;  // the last rank never comes
      const Error reason{ErrorKind::kPeerLost, "[test] rank 7 is gone", 7};
      TimePoint raised;
      std::thread monitor([&] {
        while (communicator->last_operation().sequence == 0) std::this_thread::yield();
        raised = ends.clock.now();
        ends.abort.raise(reason);
      });
      const Result<void> ended = operation.run(*communicator);
      monitor.join();
      ASSERT_FALSE(ended.has_value()) << operation.name;
      EXPECT_EQ(ended.error(), reason) << operation.name;
      EXPECT_LT(to_seconds(ends.clock.now() - raised), 2.0) << operation.name;  // loaded machines; it polls each ms
      EXPECT_STREQ(communicator->last_operation().operation, operation.name);
    });
  }
}

TEST_P(CommunicatorConformance, StartsNothingOnceTheFlagIsUp) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    const Error reason{ErrorKind::kCancelled, "[test] interrupted"};
    ends.abort.raise(reason);
    for (const NamedOperation& operation : kOperations) EXPECT_EQ(operation.run(*communicator).error(), reason);
  });
}

TEST_P(CommunicatorConformance, NamesOperationSequenceAndMissingRankAtTheDeadline) {
  for (const NamedOperation& operation : kOperations) {
    run_ranks(GetParam(), [&](Peer& peer) {
      Ends ends;
      const auto communicator = make(GetParam(), peer, ends);
      const int last = peer.size() - 1;
      if (peer.size() == 1 || peer.rank() == last) return;  // the last rank never comes
      ends.clock.run_fast();
      const Result<void> ended = operation.run(*communicator);
      ASSERT_FALSE(ended.has_value()) << operation.name;
      EXPECT_EQ(ended.error().kind, ErrorKind::kDeadlineExceeded);
      EXPECT_THAT(ended.error().message, HasSubstr(operation.name));
      const std::string missing = GetParam().implementation.sees_all ? std::to_string(last) : "[0-9]+";
      EXPECT_THAT(ended.error().message,
                  ::testing::ContainsRegex(fmt::format("ranks? ([0-9]+, )*{} missing", missing)));
      if (GetParam().implementation.counts_all) {
        EXPECT_THAT(ended.error().message, HasSubstr("operation 1)"));
      }
    });
  }
}

TEST_P(CommunicatorConformance, StaysUnusableAfterAnError) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    if (peer.size() == 1 || peer.rank() == peer.size() - 1) return;
    ends.clock.run_fast();
    const Result<void> first = run_barrier(*communicator);
    ASSERT_FALSE(first.has_value());
    for (const NamedOperation& operation : kOperations) {
      EXPECT_EQ(operation.run(*communicator).error(), first.error());
    }
    EXPECT_STREQ(communicator->last_operation().operation, "barrier");
    EXPECT_EQ(communicator->last_operation().sequence, 1u);
  });
}

}  // namespace
}  // namespace lockstep::conformance
