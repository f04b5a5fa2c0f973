// The proof of the run's secret at the start of each connection to rank 0.
//
//   connecting rank                                                               rank 0, which listens
//      │ ◄─ challenge   magic[8] nonce[32] ─────────────────────────────────────────────────┤
//      ├─ hello   magic[8] purpose u8, rank u32, run[8] nonce[32] proof[32] ──────────────► │
//      │ ◄─ welcome   proof[32] ────────────────────────────────────────────────────────────┤
//
// Both ends prove that they hold the secret: a proof is HMAC-SHA256 over the message's name, rank 0's nonce and the
// hello before its proof. `run` tells runs apart and follows from the secret. Nonces are new for each connection, so
// recorded bytes prove nothing. Numbers are little-endian. Nothing is encrypted, here or later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/core/clock.h"
#include "runtime/core/descriptor.h"
#include "runtime/core/result.h"

namespace lockstep::transport {

/// The use of a connection after the handshake; `kCheck` is closed at once.
enum class ConnectionPurpose : uint8_t { kCheck = 1, kWatch = 2, kActors = 3, kRows = 4 };

/// A connecting rank's statement, valid once it is proved.
struct ConnectionClaim {
  ConnectionPurpose purpose = ConnectionPurpose::kCheck;
  int32_t rank = 0;

  friend bool operator==(const ConnectionClaim&, const ConnectionClaim&) = default;
};

constexpr size_t kNonceBytes = 32;
constexpr size_t kChallengeBytes = 8 + kNonceBytes;
constexpr size_t kHelloBytes = 8 + 1 + 4 + 8 + kNonceBytes + 32;
constexpr size_t kWelcomeBytes = 32;

/// A hello whose proof has not been compared.
struct ConnectionHello {
  ConnectionClaim claim;  // any numbers
  std::string run;        // 8 bytes
  std::string proof;      // 32 bytes
};

/// Whether a hello may begin so; `begin` may be shorter or longer than one. Pure.
bool may_be_hello(std::string_view begin);
/// Empty for another size or other first bytes. Pure.
std::optional<ConnectionHello> read_hello(std::string_view bytes);
/// Rank 0's nonce in a challenge; empty for another size or other first bytes. Pure.
std::optional<std::string> read_challenge(std::string_view bytes);

/// Messages from their parts. Pure; `nonce` is that of rank 0.
std::string make_challenge(std::string_view nonce);
std::string make_hello(const std::string& secret, std::string_view nonce, ConnectionClaim claim,
                       std::string_view own_nonce);
std::string make_welcome(const std::string& secret, std::string_view nonce, std::string_view hello);

/// Reasons for which rank 0 refuses a connection.
enum class RefusalKind { kSilent, kEarlyEnd, kForeign, kTooLong, kOtherRun, kNoProof, kUnfit, kCrowded, kOtherUser };
constexpr size_t kRefusalKinds = 9;

/// What was found: "no hello within its deadline".
std::string_view to_string(RefusalKind kind);

/// A hello's outcome: a claim, or the reason for its refusal.
struct JudgedHello {
  std::optional<RefusalKind> refusal;
  ConnectionClaim claim;
};

/// Compares a hello of `kHelloBytes` with the secret and with the ranks of the run: 1 to `size` - 1, for `purpose` or
/// `kCheck`. Pure; comparisons take constant time.
JudgedHello judge_hello(const std::string& secret, int32_t size, ConnectionPurpose purpose, std::string_view nonce,
                        std::string_view hello);

/// Proves the secret over a connected socket and checks rank 0's proof. The message of an error is the bare reason.
/// Fails with `kDeadlineExceeded`, with `kUnavailable` when the connection ends, and with `kFailedPrecondition` when
/// the other end is no rank 0 of this run. @blocking
Result<void> prove(const Descriptor& socket, const std::string& secret, ConnectionClaim claim, Duration limit);

/// Connects to rank 0 at a numeric address and proves the secret. Fails as `prove` and `connect_within`. @blocking
Result<Descriptor> connect_to_rank_0(const std::string& address, uint16_t port, const std::string& secret,
                                     ConnectionClaim claim, Duration limit);

}  // namespace lockstep::transport
