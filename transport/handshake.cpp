#include "transport/handshake.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/core/readiness.h"
#include "runtime/core/secret.h"
#include "transport/network.h"

namespace lockstep::transport {
namespace {

constexpr std::string_view kChallengeMagic = "LSTEPch1";
constexpr std::string_view kHelloMagic = "LSTEPhi1";
constexpr size_t kRunBytes = 8;
constexpr size_t kClaimBytes = 5;
constexpr int kAttempts = 4;  // rank 0 may drop a connection when many others are half open

std::string run_of(const std::string& secret) { return hmac_sha256(secret, "run").substr(0, kRunBytes); }

/// `said` is the hello before its proof.
std::string proof_of(const std::string& secret, std::string_view message, std::string_view nonce,
                     std::string_view said) {
  std::string text(message);
  text.append(nonce).append(said);
  return hmac_sha256(secret, text);
}

std::string_view before_proof(std::string_view hello) { return hello.substr(0, kHelloBytes - kWelcomeBytes); }

Error broken(std::string_view why) { return {ErrorKind::kUnavailable, std::string(why)}; }

/// Waits until `event` is possible.
Result<void> wait_until(const Descriptor& socket, short event, const Deadline& deadline, Duration limit) {
  if (becomes_ready(socket.get(), event, deadline.remaining())) return ok();
  return Error{ErrorKind::kDeadlineExceeded,
               fmt::format("no proof of the run's secret from rank 0 within {:.3g} s", to_seconds(limit))};
}

Result<std::string> receive_exactly(const Descriptor& socket, size_t size, const Deadline& deadline, Duration limit) {
  std::string bytes(size, '\0');
  for (size_t have = 0; have < size;) {
    LOCKSTEP_TRY_VOID(wait_until(socket, POLLIN, deadline, limit));
    const ssize_t got = recv(socket.get(), bytes.data() + have, size - have, MSG_DONTWAIT);
    if (got == 0) return broken("the connection was closed before rank 0's proof of the run's secret");
    if (got < 0 && !is_temporary(errno)) return broken(std::strerror(errno));
    if (got > 0) have += static_cast<size_t>(got);
  }
  return bytes;
}

Result<void> send_all(const Descriptor& socket, std::string_view bytes, const Deadline& deadline, Duration limit) {
  while (!bytes.empty()) {
    LOCKSTEP_TRY_VOID(wait_until(socket, POLLOUT, deadline, limit));
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && !is_temporary(errno)) return broken(std::strerror(errno));
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return ok();
}

Error no_rank_0(std::string_view what) {
  return {ErrorKind::kFailedPrecondition, fmt::format("{}, which does not hold this run's secret", what)};
}

}  // namespace

bool may_be_hello(std::string_view begin) {
  const size_t size = std::min(begin.size(), kHelloMagic.size());
  return begin.substr(0, size) == kHelloMagic.substr(0, size);
}

std::optional<ConnectionHello> read_hello(std::string_view bytes) {
  if (bytes.size() != kHelloBytes || !may_be_hello(bytes)) return std::nullopt;
  bytes.remove_prefix(kHelloMagic.size());
  ConnectionHello hello;
  hello.claim.purpose = static_cast<ConnectionPurpose>(bytes[0]);
  uint32_t rank = 0;
  for (size_t i = 0; i < 4; ++i) rank |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[1 + i])) << (8 * i);
  hello.claim.rank = static_cast<int32_t>(rank);
  hello.run = bytes.substr(kClaimBytes, kRunBytes);
  hello.proof = bytes.substr(bytes.size() - kWelcomeBytes);
  return hello;
}

std::optional<std::string> read_challenge(std::string_view bytes) {
  if (bytes.size() != kChallengeBytes || !bytes.starts_with(kChallengeMagic)) return std::nullopt;
  return std::string(bytes.substr(kChallengeMagic.size()));
}

std::string make_challenge(std::string_view nonce) { return std::string(kChallengeMagic).append(nonce); }

std::string make_hello(const std::string& secret, std::string_view nonce, ConnectionClaim claim,
                       std::string_view own_nonce) {
  std::string hello(kHelloMagic);
  hello += static_cast<char>(claim.purpose);
  for (int shift = 0; shift < 32; shift += 8) {
    hello += static_cast<char>(static_cast<uint32_t>(claim.rank) >> shift & 0xff);
  }
  hello.append(run_of(secret)).append(own_nonce);
  return hello + proof_of(secret, "hello", nonce, hello);
}

std::string make_welcome(const std::string& secret, std::string_view nonce, std::string_view hello) {
  return proof_of(secret, "welcome", nonce, before_proof(hello));
}

std::string_view to_string(RefusalKind kind) {
  switch (kind) {
    case RefusalKind::kSilent: return "no hello within its deadline";
    case RefusalKind::kEarlyEnd: return "its end before a hello";
    case RefusalKind::kForeign: return "bytes of another protocol";
    case RefusalKind::kTooLong: return "more bytes than a hello";
    case RefusalKind::kOtherRun: return "the hello of another run";
    case RefusalKind::kNoProof: return "no proof of the run's secret";
    case RefusalKind::kUnfit: return "a rank or a purpose that is not expected here";
    case RefusalKind::kCrowded: return "too many connections without a hello";
    case RefusalKind::kOtherUser: return "a process of another user";
  }
  return "";
}

JudgedHello judge_hello(const std::string& secret, int32_t size, ConnectionPurpose purpose, std::string_view nonce,
                        std::string_view hello) {
  const auto found = read_hello(hello);
  if (!found) return {RefusalKind::kForeign, {}};
  if (!is_equal_secret(found->run, run_of(secret))) return {RefusalKind::kOtherRun, {}};
  if (!is_equal_secret(found->proof, proof_of(secret, "hello", nonce, before_proof(hello)))) {
    return {RefusalKind::kNoProof, {}};
  }
  const ConnectionClaim& claim = found->claim;
  const bool fits =
      claim.rank > 0 && claim.rank < size && (claim.purpose == purpose || claim.purpose == ConnectionPurpose::kCheck);
  return {fits ? std::nullopt : std::optional(RefusalKind::kUnfit), claim};
}

Result<void> prove(const Descriptor& socket, const std::string& secret, ConnectionClaim claim, Duration limit) {
  const SteadyClock clock;
  const Deadline deadline(clock, limit);
  LOCKSTEP_TRY(const std::string challenge, receive_exactly(socket, kChallengeBytes, deadline, limit));
  const auto nonce = read_challenge(challenge);
  if (!nonce) return no_rank_0("another program");
  const std::string hello = make_hello(secret, *nonce, claim, random_bytes(kNonceBytes));
  LOCKSTEP_TRY_VOID(send_all(socket, hello, deadline, limit));
  LOCKSTEP_TRY(const std::string welcome, receive_exactly(socket, kWelcomeBytes, deadline, limit));
  if (!is_equal_secret(welcome, make_welcome(secret, *nonce, hello))) return no_rank_0("a listener");
  return ok();
}

Result<Descriptor> connect_to_rank_0(const std::string& address, uint16_t port, const std::string& secret,
                                     ConnectionClaim claim, Duration limit) {
  const SteadyClock clock;
  const Deadline deadline(clock, limit);
  for (int attempt = 1;; ++attempt) {
    LOCKSTEP_TRY(Descriptor socket, connect_within(address, port, std::max<Duration>(deadline.remaining(), {})));
    const Result<void> proved = prove(socket, secret, claim, std::max<Duration>(deadline.remaining(), {}));
    if (proved.has_value()) return socket;
    const bool may_pass = proved.error().kind == ErrorKind::kUnavailable && attempt < kAttempts;
    if (!may_pass || deadline.has_passed()) return proved.error();
  }
}

}  // namespace lockstep::transport
