// Tests of the watch with threads as processes: losses, failures, silence, good ends.
#include "transport/watch/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "transport/watch/wire.h"

namespace lockstep::transport::watch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kSoon = seconds(20);  // only a failure gets there
constexpr auto kShort = milliseconds(50);
const std::string kWatchSecret(64, 'w');

/// The ends reported to a rank.
class Ears {
 public:
  void hear(const Error& error) {
    std::lock_guard lock(mutex_);
    heard_.push_back(error);
    changed_.notify_all();
  }
  Error wait() {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, kSoon, [this] { return !heard_.empty(); });
    return came ? heard_.front() : Error{ErrorKind::kInternal, "heard nothing"};
  }
  void note_refused(const std::string& line) {
    std::lock_guard lock(mutex_);
    refused_.push_back(line);
  }
  std::vector<std::string> refused() {
    std::lock_guard lock(mutex_);
    return refused_;
  }
  size_t count() {
    std::lock_guard lock(mutex_);
    return heard_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Error> heard_;
  std::vector<std::string> refused_;
};

enum class Way { kLocal, kTcp };

Endpoint endpoint_of(Way way) {
  static int made = 0;
  if (way == Way::kTcp) return {.local = {}, .host = "127.0.0.1", .port = 0, .secret = kWatchSecret};
  return {.local = "lockstep-watch-test-" + std::to_string(getpid()) + "-" + std::to_string(made++),
          .host = {},
          .port = 0,
          .secret = kWatchSecret};
}

/// `size` ranks that watch each other.
class Group {
 public:
  Group(int size, Way way, Duration silence = {}) : ears_(static_cast<size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      WatchOptions options{.rank = rank, .size = size, .host = "host" + std::to_string(rank), .silence = silence};
      options.activity = [rank] { return "step " + std::to_string(rank); };
      options.on_end = [this, rank](const Error& error) { ears_[static_cast<size_t>(rank)].hear(error); };
      watches_.push_back(rank == 0 ? PeerWatch::host(std::move(options), endpoint_of(way)).value()
                                   : PeerWatch::join(std::move(options), watches_[0]->endpoint()));
    }
    for (const auto& watch : watches_) EXPECT_TRUE(watch->wait_joined(kSoon));
  }
  ~Group() { watches_.clear(); }  // before the ears

  PeerWatch& watch(int rank) { return *watches_[static_cast<size_t>(rank)]; }
  Ears& ears(int rank) { return ears_[static_cast<size_t>(rank)]; }
  void lose(int rank) { watches_[static_cast<size_t>(rank)].reset(); }

 private:
  std::vector<Ears> ears_;
  std::vector<std::unique_ptr<PeerWatch>> watches_;
};

class PeerWatchBy : public ::testing::TestWithParam<Way> {};

TEST_P(PeerWatchBy, TellsEveryRankWhoWasLost) {
  Group group(3, GetParam());
  group.lose(1);
  for (const int rank : {0, 2}) {
    const Error error = group.ears(rank).wait();
    EXPECT_EQ(error.kind, ErrorKind::kPeerLost);
    EXPECT_EQ(error.origin_rank, 1);
    EXPECT_THAT(error.message, HasSubstr("rank 1 on host host1 was lost"));
  }
}

TEST_P(PeerWatchBy, RankZeroKnowsWhereTheRanksAreAndWhichOnesAreToLeave) {
  Group group(3, GetParam(), seconds(5));
  group.watch(2).announce_leave();
  const auto deadline = SteadyClock().now() + kSoon;
  while (!group.watch(0).presence()[2].is_leaving && SteadyClock().now() < deadline) std::this_thread::yield();
  const std::vector<Presence> ranks = group.watch(0).presence();
  ASSERT_EQ(ranks.size(), 3U);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(ranks[rank].host, "host" + std::to_string(rank));
    EXPECT_EQ(ranks[rank].is_leaving, rank == 2);
    EXPECT_LT(ranks[rank].silence, seconds(5));
  }
  EXPECT_EQ(group.ears(0).count(), 0U);  // the job goes on
}

TEST_P(PeerWatchBy, TellsEveryRankThatRankZeroWasLost) {
  Group group(3, GetParam());
  group.lose(0);
  for (const int rank : {1, 2})
    EXPECT_THAT(group.ears(rank).wait().message, HasSubstr("rank 0 on host host0 was lost"));
}

TEST_P(PeerWatchBy, PassesOnTheWordOfARankThatFailsAndDoesNotCallItLost) {
  for (const int failing : {2, 0}) {
    Group group(3, GetParam());
    group.watch(failing).tell({ErrorKind::kResourceExhausted, "no memory\nat all"});
    group.lose(failing);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == failing) continue;
      const Error error = group.ears(rank).wait();
      EXPECT_EQ(error.kind, ErrorKind::kResourceExhausted);
      EXPECT_EQ(error.origin_rank, failing);
      EXPECT_THAT(error.message, HasSubstr("no memory\nat all (said by rank " + std::to_string(failing)));
    }
  }
}

TEST_P(PeerWatchBy, TakesARankThatLeavesInOrderForNoLoss) {
  Group group(3, GetParam());
  for (const int rank : {1, 2, 0}) group.watch(rank).leave(kSoon);
  for (const int rank : {0, 2, 1}) group.lose(rank);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(group.ears(rank).count(), 0u);
}

TEST_P(PeerWatchBy, NoticesALossWhileRankZeroWaitsForTheLast) {
  Group group(3, GetParam());
  group.watch(1).leave(kSoon);
  group.lose(2);
  group.watch(0).leave(kSoon);
  EXPECT_EQ(group.ears(0).wait().origin_rank, 2);
}

INSTANTIATE_TEST_SUITE_P(Ways, PeerWatchBy, ::testing::Values(Way::kLocal, Way::kTcp),
                         [](const auto& way) { return way.param == Way::kLocal ? "Local" : "Tcp"; });

/// Rank 1, which sends hello with its activity to `endpoint`, and then nothing.
Descriptor silent_rank(const Endpoint& endpoint, const Hello& hello) {
  Descriptor socket = connect_to(endpoint, /*rank=*/1);
  EXPECT_TRUE(send_frame(socket, FrameKind::kHello, to_text(hello)));
  EXPECT_TRUE(send_frame(socket, FrameKind::kAlive, "decode, at all_reduce (operation 9)"));
  return socket;
}

struct Alone {
  explicit Alone(Duration silence) {
    WatchOptions options{.rank = 0, .size = 2, .host = "a", .silence = silence};
    options.on_refused = [this](const std::string& line) { ears.note_refused(line); };
    options.on_end = [this](const Error& error) { ears.hear(error); };
    watch = PeerWatch::host(std::move(options), endpoint_of(Way::kTcp)).value();
  }
  Ears ears;
  std::unique_ptr<PeerWatch> watch;
};

TEST(PeerWatch, CallsARankLostThatIsConnectedButSilent) {
  Alone zero(milliseconds(300));
  const Descriptor socket = silent_rank(zero.watch->endpoint(), {.rank = 1, .size = 2, .host = "b"});
  const Error error = zero.ears.wait();
  EXPECT_EQ(error.origin_rank, 1);
  EXPECT_THAT(error.message, HasSubstr("rank 1 on host b was lost: found no sign of life for 0."));
  EXPECT_THAT(error.message, HasSubstr("in decode, at all_reduce (operation 9)"));
}

TEST(PeerWatch, DoesNotListenToAStranger) {
  Alone zero(Duration::zero());
  Endpoint guessed = zero.watch->endpoint();
  guessed.secret = std::string(64, 'x');
  EXPECT_FALSE(connect_to(guessed, /*rank=*/1).is_open());
  // A rank that holds the secret, but says that it is another.
  const Descriptor other = silent_rank(zero.watch->endpoint(), {.rank = 0, .size = 2, .host = "b"});
  EXPECT_FALSE(zero.watch->wait_joined(kShort));
  EXPECT_THAT(zero.watch->missing(), ElementsAre(1));
  EXPECT_THAT(zero.ears.refused(), ElementsAre(HasSubstr("found the hello of another run")));
  const Descriptor rank = silent_rank(zero.watch->endpoint(), {.rank = 1, .size = 2, .host = "b"});
  EXPECT_TRUE(zero.watch->wait_joined(kSoon));
  EXPECT_THAT(zero.watch->missing(), IsEmpty());
}

TEST(PeerWatch, SaysThatItCannotListenThere) {
  const auto watch = PeerWatch::host({}, {.local = {}, .host = "192.0.2.1", .port = 0, .secret = {}});
  ASSERT_FALSE(watch.has_value());
  EXPECT_EQ(watch.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(watch.error().message, HasSubstr("192.0.2.1"));
}

TEST(Endpoint, IsTheSameAfterItsText) {
  for (const Endpoint& endpoint : {Endpoint{"name", "", 0, ""}, Endpoint{"", "host", 1234, ""}}) {
    EXPECT_EQ(parse_endpoint(to_text(endpoint)).value(), endpoint);
  }
  EXPECT_FALSE(parse_endpoint("nothing").has_value());
}

}  // namespace
}  // namespace lockstep::transport::watch
