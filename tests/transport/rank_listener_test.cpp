// Tests of rank 0's listener with strangers, replays, floods and slow ranks; time is simulated.
#include "transport/rank_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>

#include "runtime/core/secret.h"
#include "tests/temporary_directory.h"
#include "transport/network.h"
#include "transport/rank_acceptor.h"

namespace lockstep::transport {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::string kJobSecret(64, 'j');
constexpr auto kLong = seconds(20);  // only a failure gets there

/// A rank 0 of four ranks.
class Rank0 {
 public:
  explicit Rank0(RankListenerOptions options = {}) {
    options.secret = kJobSecret;
    options.size = 4;
    options.on_refused = [this](const std::string& line) { lines.push_back(line); };
    Listening listening = listen_on_free_port("127.0.0.1").value();
    port = listening.port;
    listener.emplace(std::move(listening.socket), std::move(options));
  }

  Descriptor connect() const { return connect_within("127.0.0.1", port, kLong).value(); }

  /// Waits for events, then takes what there is.
  void take() {
    std::vector<pollfd> files;
    listener->add_files(files);
    ASSERT_GT(poll(files.data(), files.size(), 20'000), 0);
    take_now();
  }
  void take_now() {
    for (ProvenConnection& one : listener->take(clock.now())) proven.push_back(std::move(one));
  }
  void take_until_refused(RefusalKind kind, int64_t count = 1) {
    while (listener->refused(kind) < count && !::testing::Test::HasFatalFailure()) take();
  }

  ManualClock clock;
  std::vector<std::string> lines;
  std::vector<ProvenConnection> proven;
  uint16_t port = 0;
  std::optional<RankListener> listener;
};

/// The challenge that waits at a stranger's end.
std::string challenge_at(const Descriptor& socket) {
  std::string bytes(kChallengeBytes, '\0');
  pollfd one{.fd = socket.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&one, 1, 20'000), 1);
  EXPECT_EQ(recv(socket.get(), bytes.data(), bytes.size(), MSG_WAITALL), std::ssize(bytes));
  return bytes;
}

void say(const Descriptor& socket, const std::string& bytes) {
  EXPECT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
}

bool is_closed(const Descriptor& socket) {
  pollfd one{.fd = socket.get(), .events = POLLIN, .revents = 0};
  char byte = 0;
  return poll(&one, 1, 20'000) == 1 && recv(socket.get(), &byte, 1, MSG_DONTWAIT) <= 0;
}

std::string hello_for(const std::string& challenge, int32_t rank, const std::string& secret = kJobSecret) {
  return make_hello(secret, read_challenge(challenge).value(), {ConnectionPurpose::kActors, rank},
                    random_bytes(kNonceBytes));
}

TEST(RankListener, HandsOverARankThatProvesTheSecretEvenByteByByte) {
  Rank0 zero;
  const Descriptor rank = zero.connect();
  zero.take();
  for (const char byte : hello_for(challenge_at(rank), 3)) {
    say(rank, std::string(1, byte));
    zero.take();
  }
  ASSERT_THAT(zero.proven, SizeIs(1));
  EXPECT_EQ(zero.proven[0].rank, 3);
  std::string welcome(kWelcomeBytes, '\0');
  EXPECT_EQ(recv(rank.get(), welcome.data(), welcome.size(), 0), std::ssize(welcome));
  say(rank, "next");  // the first bytes of its user
  EXPECT_EQ(recv(zero.proven[0].socket.get(), welcome.data(), welcome.size(), 0), 4);
  EXPECT_THAT(zero.lines, SizeIs(0));
}

TEST(RankListener, RefusesStrangersByKindAndNamesThem) {
  Rank0 zero;
  std::vector<Descriptor> strangers;
  const auto come = [&]() -> const Descriptor& {
    strangers.push_back(zero.connect());
    zero.take();
    return strangers.back();
  };
  challenge_at(come());
  say(strangers.back(), "GET / HTTP/1.1\r\n\r\n");
  zero.take_until_refused(RefusalKind::kForeign);
  const std::string wrong = hello_for(challenge_at(come()), 1, std::string(64, 'x'));
  say(strangers.back(), wrong);
  zero.take_until_refused(RefusalKind::kOtherRun);
  const std::string recorded = hello_for(challenge_at(come()), 1);
  say(strangers.back(), recorded + "more");
  zero.take_until_refused(RefusalKind::kTooLong);
  say(come(), recorded);  // again, for another nonce
  zero.take_until_refused(RefusalKind::kNoProof);
  const std::string unfit = hello_for(challenge_at(come()), 0);
  say(strangers.back(), unfit);
  zero.take_until_refused(RefusalKind::kUnfit);
  EXPECT_TRUE(is_closed(strangers.front()));
  come();
  say(strangers.back(), recorded.substr(0, 40));
  strangers.back().close();
  zero.take_until_refused(RefusalKind::kEarlyEnd);
  EXPECT_THAT(zero.proven, SizeIs(0));
  EXPECT_EQ(zero.listener->pending(), 0U);
  EXPECT_THAT(zero.lines,
              ElementsAre(HasSubstr("bytes of another protocol"), HasSubstr("the hello of another run"),
                          HasSubstr("more bytes than a hello"), HasSubstr("no proof of the run's secret"),
                          HasSubstr("a rank or a purpose that is not expected"), HasSubstr("its end before a hello")));
  for (const std::string& line : zero.lines) {
    EXPECT_THAT(line, AllOf(HasSubstr("[control] rank 0: refused a connection from 127.0.0.1:"),
                            HasSubstr("; the run goes on")));
  }
}

TEST(RankListener, GivesAHelloATimeAndNoMore) {
  Rank0 zero({.deadline = seconds(5)});
  const Descriptor silent = zero.connect();
  zero.take();
  EXPECT_EQ(zero.listener->patience(zero.clock.now(), seconds(60)), seconds(5));
  const std::string hello = hello_for(challenge_at(silent), 1);
  zero.clock.advance(seconds(4));
  say(silent, hello.substr(0, 50));  // a slow end gets no more time
  zero.take();
  zero.clock.advance(seconds(1));
  zero.take_now();
  EXPECT_EQ(zero.listener->refused(RefusalKind::kSilent), 1);
  EXPECT_EQ(zero.listener->pending(), 0U);
  EXPECT_EQ(zero.listener->patience(zero.clock.now(), seconds(60)), seconds(60));
}

TEST(RankListener, AFloodOfHalfOpenConnectionsCostsABoundedNumberOfFilesAndStopsNoRank) {
  Rank0 zero({.most_pending = 8});
  std::vector<Descriptor> flood;
  for (int i = 0; i < 100; ++i) {
    flood.push_back(zero.connect());
    zero.take();
    EXPECT_LE(zero.listener->pending(), 8U);
  }
  const Descriptor rank = zero.connect();
  zero.take();
  say(rank, hello_for(challenge_at(rank), 2));
  zero.take();
  ASSERT_THAT(zero.proven, SizeIs(1));
  EXPECT_EQ(zero.listener->refused(RefusalKind::kCrowded), 93);
  EXPECT_THAT(zero.lines,
              ElementsAre(HasSubstr("too many connections without a hello"), HasSubstr("(10 such so far)")));
}

/// A connection to `port` from the loopback address 127.0.0.`last`: another host, for the listener.
Descriptor connect_from(uint8_t last, uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(0x7F000000U + last)}, .sin_zero = {}};
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
  sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return socket;
}

TEST(RankListener, AFloodFromOneHostDoesNotDisplaceARankOfAnother) {
  Rank0 zero({.most_pending = 3});
  const Descriptor rank = connect_from(2, zero.port);  // the oldest
  zero.take();
  std::vector<Descriptor> flood;
  for (int i = 0; i < 10; ++i) {
    flood.push_back(connect_from(3, zero.port));
    zero.take();
  }
  EXPECT_EQ(zero.listener->refused(RefusalKind::kCrowded), 8);
  EXPECT_THAT(zero.lines, ElementsAre(HasSubstr("from 127.0.0.3:")));
  say(rank, hello_for(challenge_at(rank), 2));
  zero.take();
  ASSERT_THAT(zero.proven, SizeIs(1));
  EXPECT_EQ(zero.proven[0].rank, 2);
}

/// Connects to a Unix socket as the user `user`, who holds the secret. Call in a forked process.
[[noreturn]] void say_hello_as(uid_t user, const sockaddr_un& address) {
  std::string challenge(kChallengeBytes, '\0');
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool is_there =
      setuid(user) == 0 && connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const bool is_challenged =
      is_there && recv(socket, challenge.data(), challenge.size(), MSG_WAITALL) == std::ssize(challenge);
  _exit(!is_there ? 2 : is_challenged ? 1 : 0);
}

TEST(RankListener, RefusesOtherUsersOnAUnixSocket) {
  constexpr uid_t kNobody = 65534;
  if (geteuid() != 0) GTEST_SKIP() << "only root can connect as another user";
  const TemporaryDirectory folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = (folder.path() / "rank-0").string();
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  Descriptor listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listening.get(), 8), 0);
  std::filesystem::permissions(path, std::filesystem::perms::all);
  std::vector<std::string> lines;
  RankListener listener(
      std::move(listening),
      {.secret = kJobSecret, .size = 4, .on_refused = [&](const std::string& line) { lines.push_back(line); }});
  const ManualClock clock;
  const pid_t stranger = fork();
  if (stranger == 0) say_hello_as(kNobody, address);
  std::vector<pollfd> files;
  listener.add_files(files);
  ASSERT_GT(poll(files.data(), files.size(), 20'000), 0);
  EXPECT_THAT(listener.take(clock.now()), SizeIs(0));
  EXPECT_EQ(listener.refused(RefusalKind::kOtherUser), 1);
  EXPECT_EQ(listener.pending(), 0U);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("refused a connection from a process of this host")));
  int status = 0;
  ASSERT_EQ(waitpid(stranger, &status, 0), stranger);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;  // it got no challenge
}

TEST(RankListener, DoesNotKeepACheckOfTheNetwork) {
  Rank0 zero;
  auto checked = std::async(std::launch::async, [&] {
    return connect_to_rank_0("127.0.0.1", zero.port, kJobSecret, {ConnectionPurpose::kCheck, 1}, kLong).has_value();
  });
  while (checked.wait_for(std::chrono::milliseconds(0)) != std::future_status::ready) zero.take_now();
  EXPECT_TRUE(checked.get());
  EXPECT_THAT(zero.proven, SizeIs(0));
  EXPECT_THAT(zero.lines, SizeIs(0));
}

TEST(RankAcceptor, HandsOverRanksFromItsThread) {
  std::promise<int32_t> rank;
  const auto acceptor =
      RankAcceptor::open("127.0.0.1", {.secret = kJobSecret, .size = 2}, [&](const ProvenConnection& proven) {
        rank.set_value(proven.rank);
      }).value();
  const ConnectionClaim claim{ConnectionPurpose::kActors, 1};
  EXPECT_TRUE(connect_to_rank_0("127.0.0.1", acceptor->port(), kJobSecret, claim, kLong).has_value());
  EXPECT_EQ(rank.get_future().get(), 1);
  const auto stranger = connect_to_rank_0("127.0.0.1", acceptor->port(), "another", claim, kLong);
  ASSERT_FALSE(stranger.has_value());
  EXPECT_THAT(stranger.error().message, HasSubstr("closed before rank 0's proof"));
}

}  // namespace
}  // namespace lockstep::transport
