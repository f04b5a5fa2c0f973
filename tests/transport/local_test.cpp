#include "transport/local/local.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/conformance/communicator/waits.h"

namespace lockstep::transport::local {
namespace {

using conformance::Ends;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Each rank maps the file for itself, as a process does.
void on_ranks(int ranks, const std::function<void(World&, const WaitOptions&)>& body) {
  const MeetingFile file = MeetingFile::create(ranks).value();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Ends ends;
      const auto world = World::join(file.descriptor(), rank, ranks).value();
      body(*world, ends.wait);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LocalWorld, ExchangesTextsOfAnyLength) {
  on_ranks(3, [](World& world, const WaitOptions& wait) {
    const auto bootstrap = world.make_bootstrap(wait).value();
    const auto text = [](int rank) {
      return std::string(static_cast<size_t>(rank) * 50000, static_cast<char>('a' + rank));
    };
    EXPECT_THAT(bootstrap->exchange(text(world.rank())).value(), ElementsAre(text(0), text(1), text(2)));
    EXPECT_EQ(bootstrap->places().value()[2].local_size, 3);
    EXPECT_EQ(bootstrap->name(), "processes");
    EXPECT_TRUE(bootstrap->finish().has_value());
  });
}

TEST(LocalWorld, KeepsItsBootstrapsApart) {
  on_ranks(2, [](World& world, const WaitOptions& wait) {
    const auto first = world.make_bootstrap(wait).value();
    const auto second = world.make_bootstrap(wait).value();
    if (world.rank() == 0) {
      EXPECT_THAT(first->exchange("a").value(), ElementsAre("a", "b"));
      EXPECT_THAT(second->exchange("c").value(), ElementsAre("c", "d"));
      return;
    }
    std::thread other([&] { EXPECT_THAT(second->exchange("d").value(), ElementsAre("c", "d")); });
    EXPECT_THAT(first->exchange("b").value(), ElementsAre("a", "b"));
    other.join();
  });
}

TEST(LocalWorld, ConnectsProcesses) {
  const MeetingFile file = MeetingFile::create(2).value();
  const pid_t child = fork();
  Ends ends;
  const auto world = World::join(file.descriptor(), child == 0 ? 1 : 0, 2).value();
  const auto told = world->make_bootstrap(ends.wait).value()->exchange(child == 0 ? "child" : "parent");
  if (child == 0) _exit(told.has_value() && told.value()[0] == "parent" ? 0 : 1);
  EXPECT_THAT(told.value(), ElementsAre("parent", "child"));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(LocalWorld, NamesTheRankThatIsMissing) {
  const MeetingFile file = MeetingFile::create(3).value();
  Ends ends;
  ends.wait.deadline = std::chrono::milliseconds(50);
  const auto world = World::join(file.descriptor(), 0, 3).value();
  const auto met = world->make_bootstrap(ends.wait).value()->barrier();
  ASSERT_FALSE(met.has_value());
  EXPECT_EQ(met.error().kind, ErrorKind::kDeadlineExceeded);
  EXPECT_THAT(met.error().message, HasSubstr("ranks 1, 2"));
}

TEST(LocalWorld, RefusesADescriptorThatIsNoMeeting) {
  const MeetingFile of_three = MeetingFile::create(3).value();
  for (const int descriptor : {of_three.descriptor(), 1000, -1}) {
    const auto world = World::join(descriptor, 0, 2);
    ASSERT_FALSE(world.has_value()) << descriptor;
    EXPECT_EQ(world.error().kind, ErrorKind::kFailedPrecondition);
    EXPECT_THAT(world.error().message, HasSubstr("LOCKSTEP_MEETING"));
  }
}

TEST(LocalWorld, RefusesARankThatHasJoinedBefore) {
  const MeetingFile file = MeetingFile::create(2).value();
  ASSERT_TRUE(World::join(file.descriptor(), 1, 2).has_value());  // its memory holds what the rank left there
  const auto again = World::join(file.descriptor(), 1, 2);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(again.error().message, HasSubstr("open one group in a program"));
  EXPECT_TRUE(World::join(file.descriptor(), 0, 2).has_value());
}

TEST(LocalWorld, IsNotInheritedFurther) {
  const MeetingFile file = MeetingFile::create(2).value();
  fcntl(file.descriptor(), F_SETFD, 0);  // as after the exec that started this rank
  const auto world = World::join(file.descriptor(), 0, 2).value();
  EXPECT_EQ(fcntl(file.descriptor(), F_GETFD), FD_CLOEXEC);
}

TEST(LocalWorld, EndsWithTheLastBootstrapOfAGroup) {
  const MeetingFile file = MeetingFile::create(1).value();
  Ends ends;
  const auto world = World::join(file.descriptor(), 0, 1).value();
  for (int i = 0; i < kMostBootstraps; ++i) ASSERT_TRUE(world->make_bootstrap(ends.wait).has_value()) << i;
  EXPECT_EQ(world->make_bootstrap(ends.wait).error().kind, ErrorKind::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::transport::local
