// Tests of the handshake's messages, and of the connecting end against a simulated rank 0.
#include "transport/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "runtime/core/secret.h"

namespace lockstep::transport {
namespace {

using ::testing::HasSubstr;

const std::string kRunSecret(64, 'a');
const std::string kNonceA(kNonceBytes, '1');
const std::string kNonceB(kNonceBytes, '2');
constexpr ConnectionClaim kRankTwo{.purpose = ConnectionPurpose::kActors, .rank = 2};

std::optional<RefusalKind> refusal_of(const std::string& hello, const std::string& nonce = kNonceA) {
  return judge_hello(kRunSecret, /*size=*/4, ConnectionPurpose::kActors, nonce, hello).refusal;
}

TEST(Handshake, TakesARankThatProvesTheSecret) {
  const std::string hello = make_hello(kRunSecret, kNonceA, kRankTwo, kNonceB);
  EXPECT_EQ(hello.size(), kHelloBytes);
  const JudgedHello judged = judge_hello(kRunSecret, 4, ConnectionPurpose::kActors, kNonceA, hello);
  EXPECT_EQ(judged.refusal, std::nullopt);
  EXPECT_EQ(judged.claim, kRankTwo);
  EXPECT_EQ(make_welcome(kRunSecret, kNonceA, hello).size(), kWelcomeBytes);
  EXPECT_NE(make_welcome(kRunSecret, kNonceA, hello), hello.substr(kHelloBytes - kWelcomeBytes));
}

TEST(Handshake, RefusesWhatProvesNothing) {
  EXPECT_EQ(refusal_of(make_hello(std::string(64, 'b'), kNonceA, kRankTwo, kNonceB)), RefusalKind::kOtherRun);
  const std::string hello = make_hello(kRunSecret, kNonceA, kRankTwo, kNonceB);
  EXPECT_EQ(refusal_of(hello, kNonceB), RefusalKind::kNoProof);  // a recorded hello, sent again
  EXPECT_EQ(refusal_of(hello.substr(1)), RefusalKind::kForeign);
  EXPECT_EQ(refusal_of(hello + "x"), RefusalKind::kForeign);
  EXPECT_EQ(refusal_of(""), RefusalKind::kForeign);
  EXPECT_EQ(refusal_of(make_welcome(kRunSecret, kNonceA, hello)), RefusalKind::kForeign);
}

TEST(Handshake, CoversEachByteOfAHello) {
  const std::string hello = make_hello(kRunSecret, kNonceA, kRankTwo, kNonceB);
  for (size_t at = 0; at < hello.size(); ++at) {
    std::string other = hello;
    other[at] = static_cast<char>(other[at] ^ 1);
    EXPECT_TRUE(refusal_of(other).has_value()) << at;
  }
}

TEST(Handshake, TakesOnlyTheRunsOtherRanksForThePurpose) {
  const auto hello_of = [](ConnectionPurpose purpose, int32_t rank) {
    return make_hello(kRunSecret, kNonceA, {purpose, rank}, kNonceB);
  };
  for (const int32_t rank : {0, 4, -1, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(refusal_of(hello_of(ConnectionPurpose::kActors, rank)), RefusalKind::kUnfit) << rank;
  }
  EXPECT_EQ(refusal_of(hello_of(ConnectionPurpose::kWatch, 1)), RefusalKind::kUnfit);
  EXPECT_EQ(refusal_of(hello_of(static_cast<ConnectionPurpose>(99), 1)), RefusalKind::kUnfit);
  EXPECT_EQ(refusal_of(hello_of(ConnectionPurpose::kCheck, 1)), std::nullopt);
}

TEST(Handshake, KnowsTheBeginningOfAHello) {
  const std::string hello = make_hello(kRunSecret, kNonceA, kRankTwo, kNonceB);
  EXPECT_TRUE(may_be_hello(""));
  EXPECT_TRUE(may_be_hello(hello.substr(0, 3)));
  EXPECT_TRUE(may_be_hello(hello));
  EXPECT_FALSE(may_be_hello("GET / HTTP/1.1"));
  EXPECT_EQ(read_challenge(make_challenge(kNonceA)), kNonceA);
  EXPECT_EQ(read_challenge(hello), std::nullopt);
}

/// The two ends of a connection; the first is a rank, which proves the secret.
struct Connected {
  Connected() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    rank = Descriptor(ends[0]);
    other = Descriptor(ends[1]);
  }
  Error failure(Duration limit = std::chrono::seconds(20)) const {
    const Result<void> proved = prove(rank, kRunSecret, kRankTwo, limit);
    return proved.has_value() ? Error{ErrorKind::kInternal, "no failure"} : proved.error();
  }
  void say(const std::string& bytes) const {
    EXPECT_EQ(write(other.get(), bytes.data(), bytes.size()), std::ssize(bytes));
  }

  Descriptor rank, other;
};

TEST(Prove, RefusesARankZeroWithoutTheSecret) {
  Connected parrot;
  parrot.say(make_challenge(kNonceA) + std::string(kWelcomeBytes, 'w'));
  EXPECT_EQ(parrot.failure().kind, ErrorKind::kFailedPrecondition);
  Connected web_server;
  web_server.say("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(web_server.failure().message, HasSubstr("another program, which does not hold this run's secret"));
  // Its own proof, sent back, is no welcome.
  Connected mirror;
  mirror.say(make_challenge(kNonceA));
  auto failed = std::async(std::launch::async, [&] { return mirror.failure(); });
  std::string hello(kHelloBytes, '\0');
  EXPECT_EQ(recv(mirror.other.get(), hello.data(), hello.size(), MSG_WAITALL), std::ssize(hello));
  mirror.say(hello.substr(kHelloBytes - kWelcomeBytes));
  EXPECT_EQ(failed.get().kind, ErrorKind::kFailedPrecondition);
}

TEST(Prove, EndsWithItsPatienceAndWithTheConnection) {
  const Connected silent;
  EXPECT_EQ(silent.failure(std::chrono::milliseconds(20)).kind, ErrorKind::kDeadlineExceeded);
  Connected gone;
  gone.say(make_challenge(kNonceA).substr(0, 7));
  gone.other.close();
  EXPECT_EQ(gone.failure().kind, ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace lockstep::transport
