// Tests of shared regions beyond the conformance suite: disagreements, and nothing left in /dev/shm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <functional>
#include <thread>

#include "tests/conformance/communicator/waits.h"
#include "tests/core_time.h"
#include "transport/loopback/loopback.h"
#include "transport/operation_log.h"
#include "transport/region/region.h"
#include "transport/shm/shm.h"
#include "transport/tree_finisher.h"
#include "transport/waiting.h"

namespace lockstep::transport {
namespace {

using conformance::Ends;
using device::Stream;
using ::testing::HasSubstr;

void on_threads(int ranks, const std::function<void(int, const std::shared_ptr<loopback::Group>&, Ends&)>& body) {
  const auto group = loopback::make_group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Ends ends;
      body(rank, group, ends);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RegionCommunicator, TellsBothSidesWhenTheyCallDifferentCollectives) {
  on_threads(2, [](int rank, const auto& group, Ends& ends) {
    const auto communicator = loopback::make_communicator(group, rank, ends.wait);
    ASSERT_TRUE(communicator->barrier(Stream::host()).has_value());
    std::vector<std::byte> bytes(48);
    const auto done =
        rank == 0 ? communicator->barrier(Stream::host()) : communicator->broadcast(bytes, 1, Stream::host());
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().kind, ErrorKind::kFailedPrecondition);
    EXPECT_THAT(done.error().message, HasSubstr("the ranks disagree on collective 2"));
    EXPECT_THAT(done.error().message, HasSubstr("broadcast of 48 bytes from rank 1"));
  });
}

TEST(RegionCommunicator, TellsRanksThatExpectDifferentSizes) {
  on_threads(2, [](int rank, const auto& group, Ends& ends) {
    const auto communicator = loopback::make_communicator(group, rank, ends.wait);
    std::vector<std::byte> bytes(rank == 0 ? 8 : 16);
    const auto done = communicator->broadcast(bytes, 0, Stream::host());
    ASSERT_FALSE(done.has_value());
    EXPECT_THAT(done.error().message, HasSubstr("8 bytes"));
    EXPECT_THAT(done.error().message, HasSubstr("16 bytes"));
  });
}

TEST(RegionCommunicator, SleepsWhileAPeerIsLate) {
  constexpr Duration kLate = std::chrono::milliseconds(300);
  std::array<Duration, 2> used{};
  on_threads(2, [&](int rank, const auto& group, Ends& ends) {
    const auto communicator = loopback::make_communicator(group, rank, ends.wait);
    if (rank == 1) use_core_for(kLate);
    const Duration before = own_core_time();
    EXPECT_TRUE(communicator->barrier(Stream()).has_value());
    used[static_cast<size_t>(rank)] = own_core_time() - before;
  });
  EXPECT_LT(used[0], kLate / 6);
}

TEST(Arrival, CountsRoundsAcrossTheWrap) {
  EXPECT_TRUE((region::Arrival{.round = 5}.has_entered(5)));
  EXPECT_FALSE((region::Arrival{.round = 5}.has_entered(6)));
  EXPECT_TRUE((region::Arrival{.round = 2}.has_entered(0xfffffffeu)));
  EXPECT_FALSE((region::Arrival{.round = 0xfffffffeu}.has_entered(2)));
  EXPECT_EQ((region::Arrival::unpack(region::Arrival{.round = 7, .operation = 9}.pack()).operation), 9u);
}

std::vector<std::string> names_in_shared_memory() {
  std::vector<std::string> names;
  const std::string own = "lockstep-" + std::filesystem::read_symlink("/proc/self").string() + "-";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with(own)) names.push_back(entry.path().filename());
  }
  return names;
}

TEST(SharedMemory, HasNoNameOnceEveryRankHasIt) {
  on_threads(3, [](int rank, const auto& group, Ends& ends) {
    const auto bootstrap = loopback::make_bootstrap(group, rank, ends.wait);
    const auto communicator = shm::make_communicator(*bootstrap, ends.wait).value();
    ASSERT_TRUE(bootstrap->barrier().has_value());
    EXPECT_THAT(names_in_shared_memory(), ::testing::IsEmpty());
    EXPECT_TRUE(communicator->barrier(Stream::host()).has_value());
  });
}

/// Another bootstrap, whose exchanges a test sees and changes.
class WatchedBootstrap final : public Bootstrap {
 public:
  using Change = std::function<void(std::vector<std::string>&)>;
  WatchedBootstrap(Bootstrap& bootstrap, Change change) : bootstrap_(bootstrap), change_(std::move(change)) {}

  int rank() const override { return bootstrap_.rank(); }
  int size() const override { return bootstrap_.size(); }
  std::string name() const override { return bootstrap_.name(); }
  Result<std::vector<std::string>> exchange(std::string_view mine) override {
    LOCKSTEP_TRY(std::vector<std::string> texts, bootstrap_.exchange(mine));
    change_(texts);
    return texts;
  }
  Result<void> barrier() override { return bootstrap_.barrier(); }
  Result<std::vector<RankPlace>> places() override { return bootstrap_.places(); }
  Result<void> finish() override { return bootstrap_.finish(); }

 private:
  Bootstrap& bootstrap_;
  Change change_;
};

TEST(SharedMemory, HasNoNameAtAnyTimeSoThatAKilledRankLeavesNone) {
  on_threads(3, [](int rank, const auto& group, Ends& ends) {
    const auto bootstrap = loopback::make_bootstrap(group, rank, ends.wait);
    int exchanges = 0;
    WatchedBootstrap watched(*bootstrap, [&](std::vector<std::string>&) {
      ++exchanges;
      EXPECT_THAT(names_in_shared_memory(), ::testing::IsEmpty());
    });
    EXPECT_TRUE(shm::make_communicator(watched, ends.wait).has_value());
    EXPECT_EQ(exchanges, 2);
  });
}

/// Rank 0's path leads elsewhere for the others, as if processes could not see each other.
void lead_astray(std::vector<std::string>& texts) {
  const size_t path = texts[0].find("/proc/");
  if (path != std::string::npos) texts[0].replace(path, 6, "/nowhere/");
}

TEST(SharedMemory, TakesANameWhereTheOthersCannotOpenTheFileWithoutOne) {
  on_threads(3, [](int rank, const auto& group, Ends& ends) {
    const auto bootstrap = loopback::make_bootstrap(group, rank, ends.wait);
    WatchedBootstrap watched(*bootstrap, lead_astray);
    const auto communicator = shm::make_communicator(watched, ends.wait);
    ASSERT_TRUE(communicator.has_value()) << communicator.error().message;
    EXPECT_TRUE(communicator.value()->barrier(Stream::host()).has_value());
    EXPECT_THAT(names_in_shared_memory(), ::testing::IsEmpty());
  });
}

TEST(SharedMemory, IsNotMistakenForAnotherFileOfThatPath) {
  on_threads(2, [](int rank, const auto& group, Ends& ends) {
    const auto bootstrap = loopback::make_bootstrap(group, rank, ends.wait);
    WatchedBootstrap watched(*bootstrap, [](std::vector<std::string>& texts) {
      const size_t path = texts[0].find(" /");  // "ok MARK PATH"
      if (path != std::string::npos) texts[0].replace(path - 1, 1, texts[0][path - 1] == '1' ? "2" : "1");
    });
    const auto made = shm::make_communicator(watched, ends.wait);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().kind, ErrorKind::kUnavailable);
    EXPECT_THAT(made.error().message, HasSubstr("cannot open shared memory"));
    EXPECT_THAT(names_in_shared_memory(), ::testing::IsEmpty());
  });
}

TEST(SharedMemory, SaysOnEveryRankWhatIsNeededWhenThereIsTooLittle) {
  on_threads(2, [](int rank, const auto& group, Ends& ends) {
    const auto bootstrap = loopback::make_bootstrap(group, rank, ends.wait);
    const auto made = shm::make_communicator(*bootstrap, ends.wait, {.message_bytes = size_t{1} << 45});
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().kind, ErrorKind::kResourceExhausted);
    EXPECT_THAT(made.error().message, HasSubstr("/dev/shm is too small"));
    EXPECT_THAT(made.error().message, HasSubstr("expected 128.00 TiB"));
    EXPECT_THAT(made.error().message, HasSubstr("--communicator mpi"));
  });
  EXPECT_THAT(names_in_shared_memory(), ::testing::IsEmpty());
}

/// A group of two that reports two hosts.
class TwoHosts final : public Bootstrap {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string name() const override { return "two hosts"; }
  Result<std::vector<std::string>> exchange(std::string_view) override { return std::vector<std::string>(2); }
  Result<void> barrier() override { return ok(); }
  Result<std::vector<RankPlace>> places() override {
    return std::vector{RankPlace{.rank = 0, .host = "a", .cores = {0}},
                       RankPlace{.rank = 1, .host = "b", .cores = {0}}};
  }
  Result<void> finish() override { return ok(); }
};

TEST(SharedMemory, IsRefusedBetweenHosts) {
  TwoHosts bootstrap;
  Ends ends;
  const auto made = shm::make_communicator(bootstrap, ends.wait);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(made.error().message, HasSubstr("rank 0 on a with 1 of 2 ranks"));
}

TEST(SliceOf, DividesElementsIntoWholeLinesWithoutAGap) {
  for (const int64_t elements : {0, 1, 15, 16, 17, 100, 4096, 70001}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range slice = slice_of(elements, ranks, rank);
        EXPECT_EQ(slice.begin, next);
        EXPECT_TRUE(slice.end % 16 == 0 || slice.end == elements);
        next = slice.end;
      }
      EXPECT_EQ(next, elements);
    }
  }
}

TEST(PrefersSlices, OnlyWhereLessReadingPaysForTheSecondRound) {
  const TreeFinish two_roots = plan_finish({.bounds = {0, 1, 2}});
  const TreeFinish many_roots = plan_finish({.bounds = {0, 5, 9}});
  EXPECT_FALSE(prefers_slices(two_roots, 2, 1 << 24, 8192));
  EXPECT_FALSE(prefers_slices(many_roots, 2, 1024, 8192));
  EXPECT_TRUE(prefers_slices(many_roots, 2, 65536, 8192));
}

TEST(OperationLog, NeverShowsTwoOperationsMixed) {
  OperationLog log;
  constexpr uint64_t kLeast = 100000, kReads = 1000;
  std::atomic<bool> done = false;
  std::atomic<uint64_t> reads = 0;  // of an operation
  std::thread reader([&] {
    uint64_t last = 0;
    while (!done) {
      const device::OperationMark mark = log.last();
      EXPECT_EQ(mark.bytes, mark.sequence * 3);
      EXPECT_GE(mark.sequence, last);
      last = mark.sequence;
      reads += last > 0;
    }
  });
  const SteadyClock clock;
  const Deadline deadline(clock, std::chrono::seconds(20));
  uint64_t written = 0;
  while (written < kLeast || (reads < kReads && !deadline.has_passed())) log.enter("all_reduce", ++written * 3);
  done = true;
  reader.join();
  EXPECT_GE(reads, kReads);
  EXPECT_EQ(log.last().sequence, written);
}

TEST(Patience, SpinsThenYieldsThenSleeps) {
  Ends ends;
  constexpr Duration kSpin = std::chrono::microseconds(1);  // too short to be changed by what is learnt
  Patience patience(ends.wait, {.spin = kSpin, .yields = 3, .sleep = std::chrono::milliseconds(1)});
  patience.begin_operation();
  patience.begin_wait();
  const int looks = pauses_in(kSpin) + 3;
  for (int look = 0; look < looks; ++look) EXPECT_EQ(patience.after_failed_look(), Patience::Verdict::kLookAgain);
  EXPECT_EQ(patience.after_failed_look(), Patience::Verdict::kSleep);
  ends.abort.raise({ErrorKind::kCancelled, "[test] stop"});
  EXPECT_EQ(patience.after_failed_look(), Patience::Verdict::kAborted);
  EXPECT_EQ(patience.abort_reason().message, "[test] stop");
}

TEST(Patience, SpinsLongerAfterAPeerThatCameSoonAfterItSlept) {
  ManualClock clock;
  AbortFlag abort;
  Patience patience({.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(100)},
                    {.spin = 2 * SpinLimit::kShortest});
  patience.begin_operation();
  const auto looks_until_sleep = [&](Duration asleep) {
    patience.begin_wait();
    int looks = 0;
    while (patience.after_failed_look() == Patience::Verdict::kLookAgain) ++looks;
    clock.advance(asleep);
    patience.end_wait();
    return looks;
  };
  const int first = looks_until_sleep(std::chrono::microseconds(30));
  EXPECT_EQ(first, pauses_in(2 * SpinLimit::kShortest));
  EXPECT_EQ(looks_until_sleep(std::chrono::milliseconds(4)), 2 * first);
  EXPECT_EQ(looks_until_sleep(std::chrono::microseconds(600)), first);
  EXPECT_EQ(looks_until_sleep(Duration::zero()), first) << "neither soon nor much later";
}

TEST(Patience, CountsTheDeadlineOfAnOperationOverAllItsWaits) {
  ManualClock clock;
  AbortFlag abort;
  Patience patience({.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(10)},
                    {.spin = Duration::zero(), .yields = 100});
  patience.begin_operation();
  for (int wait = 0; wait < 2; ++wait) {
    patience.begin_wait();
    EXPECT_EQ(patience.after_failed_look(), Patience::Verdict::kLookAgain);
    clock.advance(std::chrono::seconds(5));
  }
  EXPECT_EQ(patience.after_failed_look(), Patience::Verdict::kExpired);
  patience.begin_operation();
  EXPECT_EQ(patience.after_failed_look(), Patience::Verdict::kLookAgain);
}

}  // namespace
}  // namespace lockstep::transport
