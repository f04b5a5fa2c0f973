#include "transport/bootstrap.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/conformance/communicator/waits.h"
#include "transport/exchange.h"
#include "transport/loopback/loopback.h"
#include "transport/waiting.h"

namespace lockstep::transport {
namespace {

using conformance::Ends;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void on_threads(int ranks, const std::function<void(Bootstrap&)>& body) {
  const auto group = loopback::make_group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Ends ends;
      body(*loopback::make_bootstrap(group, rank, ends.wait));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SingleBootstrap, IsAGroupOfOne) {
  const auto single = make_single_bootstrap();
  EXPECT_EQ(single->rank(), 0);
  EXPECT_EQ(single->size(), 1);
  EXPECT_EQ(single->name(), "single");
  EXPECT_THAT(single->exchange("mine").value(), ElementsAre("mine"));
  EXPECT_TRUE(single->barrier().has_value());
  const auto places = single->places().value();
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].local_size, 1);
  EXPECT_THAT(places[0].cores, ::testing::SizeIs(::testing::Ge(1u)));
  EXPECT_LE(std::ssize(places[0].cores), places[0].host_cores);
  EXPECT_TRUE(single->finish().has_value());
}

TEST(ThreadBootstrap, ExchangesTextsOfAnyLength) {
  on_threads(3, [](Bootstrap& bootstrap) {
    const auto text = [](int rank) {
      return std::string(static_cast<size_t>(rank) * 100000, static_cast<char>('a' + rank));
    };
    EXPECT_THAT(bootstrap.exchange(text(bootstrap.rank())).value(), ElementsAre(text(0), text(1), text(2)));
    EXPECT_THAT(bootstrap.exchange("").value(), ElementsAre("", "", ""));
    EXPECT_TRUE(bootstrap.finish().has_value());
  });
}

TEST(ThreadBootstrap, PlacesEveryThreadOnOneHost) {
  on_threads(3, [](Bootstrap& bootstrap) {
    const auto places = bootstrap.places().value();
    ASSERT_EQ(places.size(), 3u);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(places[rank].rank, rank);
      EXPECT_EQ(places[rank].local_rank, rank);
      EXPECT_EQ(places[rank].local_size, 3);
      EXPECT_EQ(places[rank].host, places[0].host);
    }
    EXPECT_EQ(bootstrap.places().value(), places);
  });
}

TEST(OwnHardwareThreads, HasAtLeastOne) { EXPECT_THAT(own_hardware_threads(), ::testing::SizeIs(::testing::Ge(1u))); }

TEST(AvailableHardwareThreads, HasThoseOfTheProcessAndLeavesItBoundAsItWas) {
  const std::vector<int> own = own_hardware_threads();
  const std::vector<int> available = available_hardware_threads();
  EXPECT_THAT(available, ::testing::IsSupersetOf(own));
  EXPECT_EQ(own_hardware_threads(), own);
}

TEST(Agree, IsContentWhenAllSayTheSame) {
  on_threads(3, [](Bootstrap& bootstrap) {
    EXPECT_TRUE(agree(bootstrap, "the options", "dtype=float32\nchunk=256").has_value());
  });
}

TEST(Agree, NamesTheRanksAndTheFirstLineThatDiffers) {
  on_threads(4, [](Bootstrap& bootstrap) {
    const bool different = bootstrap.rank() % 2 == 1;
    const std::string statement = fmt::format("dtype=float32\nchunk={}\nlast=1", different ? 128 : 256);
    const auto agreed = agree(bootstrap, "the options", statement);
    ASSERT_FALSE(agreed.has_value());
    EXPECT_EQ(agreed.error().kind, ErrorKind::kFailedPrecondition);
    EXPECT_THAT(
        agreed.error().message,
        HasSubstr("disagree on the options: ranks 1, 3 differ from rank 0; line 2: found 'chunk=128' on rank 1, "
                  "expected 'chunk=256'"));
  });
}

TEST(Agree, SeesALineThatOneRankLacks) {
  on_threads(2, [](Bootstrap& bootstrap) {
    const auto agreed = agree(bootstrap, "the files", bootstrap.rank() == 0 ? "a\nb" : "a");
    ASSERT_FALSE(agreed.has_value());
    EXPECT_THAT(agreed.error().message, HasSubstr("rank 1 differs"));
    EXPECT_EQ(agreed.error().origin_rank, 1);
  });
}

TEST(Places, NumbersTheRanksOfEachHost) {
  const std::string a = to_text({.host = "a", .kernel = "1", .cores = {{0, 0}, {1, 1}}});
  const std::string b = to_text({.host = "b", .kernel = "2", .cores = {{3, 3}}});
  const auto places = places_from({a, b, a, b, a}).value();
  EXPECT_EQ(places[4],
            (RankPlace{.rank = 4, .host = "a", .local_rank = 2, .local_size = 3, .cores = {0, 1}, .machine = "1"}));
  EXPECT_EQ(
      places[3],
      (RankPlace{.rank = 3, .host = "b", .local_rank = 1, .local_size = 2, .cores = {3}, .node = 1, .machine = "2"}));
}

TEST(Places, RefusesCoresThatAreNone) {
  for (const char* text : {"a\n1\n\n4,-1", "a\n1\n\n-4,1", "a\n1\n\n4,1/-9"}) {
    EXPECT_EQ(places_from({text}).error().kind, ErrorKind::kFailedPrecondition) << text;
  }
}

TEST(Places, TellsApartMachinesOfOneName) {
  const auto places = places_from({to_text({.host = "node", .kernel = "1", .cores = {{0, 0}}}),
                                   to_text({.host = "node", .kernel = "2", .cores = {{0, 0}}})})
                          .value();
  EXPECT_EQ(places[0].local_size, 1);
  EXPECT_EQ(places[1].local_rank, 0);
  EXPECT_EQ(places[1].node, 1);
}

TEST(Places, TellsApartContainersThatShareAKernelAndAName) {
  const auto in_container = [](std::string memory) {
    return to_text({.host = "node", .kernel = "1", .memory = std::move(memory), .cores = {{0, 0}, {1, 1}}});
  };
  const auto places = places_from({in_container("1:1"), in_container("2:1"), in_container("2:1")}).value();
  EXPECT_EQ(places[0].local_size, 1);
  EXPECT_EQ(places[1].local_size, 2);
  EXPECT_NE(places[0].node, places[1].node);
  EXPECT_EQ(places[0].machine, places[1].machine);
}

TEST(Places, KeepsHowManyCoresTheHostHas) {
  const auto places = places_from({to_text({.host = "a", .kernel = "1", .cores = {{5, 5}}, .host_cores = 64})}).value();
  EXPECT_EQ(places[0].host_cores, 64);
  EXPECT_THAT(places[0].cores, ElementsAre(5));
  EXPECT_EQ(device::thread_of_core(places[0], 0), 5);
}

TEST(PlacesFrom, KnowTheHardwareThreadOfACoreThatAProcessMayUse) {
  const OwnPlace own{.host = "a", .kernel = "1", .memory = {}, .cores = {{1, 65}, {2, 2}}, .host_cores = 64};
  const auto places = places_from({to_text(own)}).value();
  EXPECT_THAT(places[0].cores, ElementsAre(1, 2));
  EXPECT_THAT(places[0].hardware_threads, ElementsAre(65, 2));
  EXPECT_FALSE(places_from({"a\n1\n\n64,1/"}).has_value());
}

TEST(Places, RefusesATextOfAnotherProgram) {
  EXPECT_EQ(places_from({"host\nkernel\nmemory\n0,x"}).error().kind, ErrorKind::kFailedPrecondition);
}

TEST(Crowding, CountsTheRanksOfAllContainersOfAMachine) {
  const RankPlace one{.rank = 0, .host = "a", .cores = {0}, .machine = "m"};
  const RankPlace other{.rank = 1, .host = "b", .cores = {0}, .node = 1, .machine = "m"};
  EXPECT_FALSE(is_crowded(std::vector{one}));
  EXPECT_TRUE(is_crowded(std::vector{one, other}));
}

TEST(Crowding, IsMoreRanksThanCoresOnSomeHost) {
  const RankPlace roomy{.rank = 0, .host = "a", .local_rank = 0, .local_size = 2, .cores = {0}};
  RankPlace neighbour = roomy;
  neighbour.cores = {1};
  EXPECT_FALSE(is_crowded(std::vector{roomy, neighbour}));
  neighbour.cores = {0};
  EXPECT_TRUE(is_crowded(std::vector{roomy, neighbour}));
}

}  // namespace
}  // namespace lockstep::transport
