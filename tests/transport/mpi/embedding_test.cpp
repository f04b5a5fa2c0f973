// Groups inside a program that has initialised MPI itself. Run by mpirun with three ranks, once for each thread level
// that the program may request.
//
//   embedding_test single|funneled|serialized|multiple
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <string_view>
#include <thread>

#include "tests/conformance/communicator/waits.h"
#include "transport/collective_probe.h"
#include "transport/mpi/mpi.h"

namespace lockstep::transport::mpi {
namespace {

using conformance::Ends;
using ::testing::HasSubstr;
using ::testing::StartsWith;

#ifdef OPEN_MPI
constexpr const char* kFamily = "Open MPI";
#else
constexpr const char* kFamily = "MPICH";
#endif
constexpr int kRounds = 20;

int level_of_program() {
  int level = 0;
  MPI_Query_thread(&level);
  return level;
}

bool is_funneled() { return level_of_program() < MPI_THREAD_SERIALIZED; }

int rank_of_program() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// A communicator of the program: ranks 0 and 1, or rank 2; freed by the program.
class Part {
 public:
  Part() { MPI_Comm_split(MPI_COMM_WORLD, rank_of_program() / 2, rank_of_program(), &comm_); }
  ~Part() { MPI_Comm_free(&comm_); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  MPI_Comm comm() const { return comm_; }
  int handle() const { return MPI_Comm_c2f(comm_); }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Checks that the group connects and every collective gives the right result.
void expect_right_collectives(World& world, const Ends& ends, int rounds = 1) {
  const auto bootstrap = world.make_bootstrap(ends.wait).value();
  const auto told = bootstrap->exchange("rank " + std::to_string(world.rank())).value();
  ASSERT_EQ(static_cast<int>(told.size()), world.size());
  EXPECT_EQ(told.back(), "rank " + std::to_string(world.size() - 1));
  const auto way = world.make_communicator(bootstrap->places().value(), ends.wait).value();
  for (int round = 0; round < rounds; ++round) {
    const auto right = check_collectives(*way);
    ASSERT_TRUE(right.has_value()) << right.error().message;
  }
}

void expect_left(World& world, const Ends& ends) {
  const auto left = world.finish(ends.wait);
  EXPECT_TRUE(left.has_value()) << left.error().message;
}

std::unique_ptr<World> adopted(int handle, const Ends& ends) {
  auto world = adopt(handle, ends.wait);
  EXPECT_TRUE(world.has_value()) << world.error().message;
  return std::move(world).value();
}

/// Whether all ranks of the program still reach each other through the program's own communicator.
void expect_program_works() {
  int one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sum, 3);
}

TEST(Embedded, MeetsTheLibraryThatTheProgramIsLinkedTo) {
  const auto library = choose_library({});
  ASSERT_TRUE(library.has_value()) << library.error().message;
  EXPECT_THAT(library.value().name, StartsWith(kFamily));
}

TEST(Embedded, AdoptsCommunicatorsOneAfterTheOther) {
  const Ends ends;
  for (int turn = 0; turn < 3; ++turn) {
    const Part part;
    const auto half = adopted(part.handle(), ends);
    EXPECT_EQ(half->size(), rank_of_program() < 2 ? 2 : 1);
    EXPECT_EQ(half->is_funneled(), is_funneled());
    expect_right_collectives(*half, ends);
    expect_left(*half, ends);
    const auto all = adopted(MPI_Comm_c2f(MPI_COMM_WORLD), ends);
    EXPECT_EQ(all->rank(), rank_of_program());
    expect_right_collectives(*all, ends);
    expect_left(*all, ends);
  }
  expect_program_works();
}

TEST(Embedded, IsCutIntoPartsWhoseMessagesAreTheirOwn) {
  const Ends ends;
  const auto all = adopted(MPI_Comm_c2f(MPI_COMM_WORLD), ends);
  const auto alone = all->part(/*ranks=*/1, /*crowded=*/false);
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(alone->rank(), 0);
  if (rank_of_program() == 0) expect_right_collectives(*alone, ends);  // without the others
  const auto three = all->part(/*ranks=*/3, /*crowded=*/true);
  EXPECT_EQ(three->rank(), rank_of_program());
  expect_right_collectives(*three, ends);
  expect_left(*three, ends);
  expect_left(*alone, ends);
  expect_right_collectives(*all, ends);
  expect_left(*all, ends);
  expect_program_works();
}

TEST(Embedded, NamesTheLibraryAndItsThreadLevel) {
  const Ends ends;
  const auto world = adopted(MPI_Comm_c2f(MPI_COMM_WORLD), ends);
  constexpr std::array<const char*, 4> kLevels = {"single", "funneled", "serialized", "multiple"};
  const std::string name = world->make_bootstrap(ends.wait).value()->name();
  EXPECT_THAT(name, StartsWith(std::string("mpi (") + kFamily));
  EXPECT_THAT(name, HasSubstr(std::string("threads ") + kLevels[static_cast<size_t>(level_of_program())]));
  expect_left(*world, ends);
}

TEST(Embedded, GoesOnWhenTheProgramFreesItsCommunicator) {
  const Ends ends;
  std::unique_ptr<World> world;
  {
    const Part part;
    world = adopted(part.handle(), ends);
  }
  expect_right_collectives(*world, ends);
  expect_left(*world, ends);
}

TEST(Embedded, LeavesMpiAndErrorHandlersToTheProgram) {
  const Ends ends;
  const Part part;
  MPI_Comm_set_errhandler(part.comm(), MPI_ERRORS_ARE_FATAL);
  const auto world = adopted(part.handle(), ends);
  expect_right_collectives(*world, ends);
  expect_left(*world, ends);
  int finalized = 0;
  MPI_Finalized(&finalized);
  EXPECT_EQ(finalized, 0);
  for (MPI_Comm comm : {part.comm(), MPI_Comm{MPI_COMM_WORLD}}) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(comm, &handler);
    EXPECT_TRUE(handler == MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
  }
  expect_program_works();
}

TEST(Embedded, RunsTwoOverlappingGroupsSideBySide) {
  const Ends ends;
  const Part part;
  const std::array<std::unique_ptr<World>, 2> worlds = {adopted(MPI_Comm_c2f(MPI_COMM_WORLD), ends),
                                                        adopted(part.handle(), ends)};
  std::atomic<int> running = 2;
  std::array<std::thread, 2> threads;
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i] = std::thread([&, i] {
      expect_right_collectives(*worlds[i], ends, kRounds);
      --running;
    });
  }
  const auto lent = worlds[0]->lend([&] { return running == 0; }, ends.wait);  // serves both
  EXPECT_TRUE(lent.has_value()) << lent.error().message;
  for (std::thread& thread : threads) thread.join();
  for (const auto& world : worlds) expect_left(*world, ends);
}

TEST(Embedded, ServesAnotherThreadsGroupWhileMpisThreadUsesItsOwn) {
  const Ends ends;
  const Part part;
  const auto all = adopted(MPI_Comm_c2f(MPI_COMM_WORLD), ends), half = adopted(part.handle(), ends);
  std::atomic<bool> is_running = true;
  std::thread other([&] {
    expect_right_collectives(*half, ends, kRounds);
    is_running = false;
  });
  expect_right_collectives(*all, ends, kRounds);
  EXPECT_TRUE(all->lend([&] { return !is_running; }, ends.wait).has_value());
  other.join();
  expect_left(*half, ends);
  expect_left(*all, ends);
}

TEST(Embedded, ServesAnotherThreadsGroupWhileItAdopts) {
  const Ends ends;
  const auto all = adopted(MPI_Comm_c2f(MPI_COMM_WORLD), ends);
  std::atomic<bool> is_running = true;
  std::thread other([&] {
    expect_right_collectives(*all, ends);
    is_running = false;
  });
  const auto lend = [&] { EXPECT_TRUE(all->lend([&] { return !is_running; }, ends.wait).has_value()); };
  if (all->rank() == 0) lend();  // rank 0 adopts after the exchanges, the others in the middle of them
  const auto again = adopted(MPI_Comm_c2f(MPI_COMM_WORLD), ends);
  if (all->rank() != 0) lend();
  other.join();
  expect_left(*again, ends);
  expect_left(*all, ends);
}

TEST(Embedded, MakesMoreCommunicatorsThanALibraryHasContexts) {
  const Ends ends;
  const auto world = adopted(MPI_Comm_c2f(MPI_COMM_WORLD), ends);
  const auto places = world->make_bootstrap(ends.wait).value()->places().value();
  for (int i = 0; i < 5000; ++i) {
    const auto way = world->make_communicator(places, ends.wait);
    ASSERT_TRUE(way.has_value()) << way.error().message;
    if (i % 500 != 0) continue;
    ASSERT_TRUE(way.value()->barrier(device::Stream::host()).has_value());
  }
  expect_left(*world, ends);
}

TEST(Embedded, SaysThatMpisThreadLentNoTime) {
  if (!is_funneled()) GTEST_SKIP() << "every thread may call MPI";
  Ends ends, short_ends;
  short_ends.clock.run_fast();
  const auto world = adopted(MPI_Comm_c2f(MPI_COMM_WORLD), ends);
  const auto places = world->make_bootstrap(ends.wait).value()->places().value();
  const auto way = world->make_communicator(places, short_ends.wait).value();
  Result<void> met = ok();
  std::thread([&] { met = way->barrier(device::Stream::host()); }).join();
  ASSERT_FALSE(met.has_value());
  EXPECT_EQ(met.error().kind, ErrorKind::kDeadlineExceeded);
  EXPECT_THAT(met.error().message, HasSubstr("lent none of its time"));
  EXPECT_THAT(met.error().message, HasSubstr("MPI_THREAD_SERIALIZED"));
  expect_right_collectives(*world, ends);  // other communicators are none the worse
  expect_left(*world, ends);
}

TEST(Embedded, IsAdoptedOnMpisThreadWhereThatIsTheOnlyOne) {
  if (!is_funneled()) GTEST_SKIP() << "every thread may call MPI";
  const Ends ends;
  const int handle = MPI_Comm_c2f(MPI_COMM_WORLD);
  std::thread([&] {
    const auto world = adopt(handle, ends.wait);
    ASSERT_FALSE(world.has_value());
    EXPECT_EQ(world.error().kind, ErrorKind::kFailedPrecondition);
    EXPECT_THAT(world.error().message, HasSubstr("MPI_THREAD_SERIALIZED"));
  }).join();
}

TEST(Embedded, IsLeftOnTheThreadThatAdopted) {
  const Ends ends;
  const auto world = adopted(MPI_Comm_c2f(MPI_COMM_WORLD), ends);
  std::thread([&] {
    const auto left = world->finish(ends.wait);
    ASSERT_FALSE(left.has_value());
    EXPECT_EQ(left.error().kind, ErrorKind::kFailedPrecondition);
  }).join();
  expect_left(*world, ends);
  expect_left(*world, ends);  // a second time it does nothing
}

TEST(Embedded, RefusesWhatIsNoGroupOfRanks) {
  const Ends ends;
  const Part part;
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Intercomm_create(part.comm(), 0, MPI_COMM_WORLD, rank_of_program() < 2 ? 2 : 0, /*tag=*/7, &between);
  for (const MPI_Comm comm : {between, MPI_Comm{MPI_COMM_NULL}}) {
    const auto world = adopt(MPI_Comm_c2f(comm), ends.wait);
    ASSERT_FALSE(world.has_value());
    EXPECT_EQ(world.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(world.error().message, HasSubstr("MPI_Comm_c2f"));
  }
  MPI_Comm_free(&between);
}

TEST(Embedded, DoesNotStartMpiASecondTime) {
  const Ends ends;
  const auto world = start(choose_library({}).value(), ends.wait);
  ASSERT_FALSE(world.has_value());
  EXPECT_EQ(world.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(world.error().message, HasSubstr("adopt"));
}

TEST(Embedded, EndsWithTheErrorOfAnAbort) {
  Ends ends;
  const Part part;
  const auto world = adopted(part.handle(), ends);
  const auto places = world->make_bootstrap(ends.wait).value()->places().value();
  const auto way = world->make_communicator(places, ends.wait).value();
  ends.abort.raise({ErrorKind::kPeerLost, "a peer is gone"});
  const auto met = way->barrier(device::Stream::host());
  ASSERT_FALSE(met.has_value());
  EXPECT_EQ(met.error().message, "a peer is gone");
  expect_program_works();  // the group is destroyed without leaving
}

}  // namespace
}  // namespace lockstep::transport::mpi

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string_view asked = argc > 1 ? argv[1] : "serialized";
  const int wanted = asked == "single"     ? MPI_THREAD_SINGLE
                     : asked == "funneled" ? MPI_THREAD_FUNNELED
                     : asked == "multiple" ? MPI_THREAD_MULTIPLE
                                           : MPI_THREAD_SERIALIZED;
  int granted = 0;
  MPI_Init_thread(nullptr, nullptr, wanted, &granted);
  if (granted != wanted) std::printf("MPI grants level %d of %d\n", granted, wanted);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
