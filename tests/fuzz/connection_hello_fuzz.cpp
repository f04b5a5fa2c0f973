// Fuzzes the hello and the challenge of a connection to rank 0: bytes are refused, or they are exactly what a holder of
// the secret makes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/core/check.h"
#include "transport/handshake.h"

using namespace lockstep;
using namespace lockstep::transport;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string kSecret(64, 'a');
  static const std::string kNonce(kNonceBytes, '1');
  constexpr int32_t kRanks = 4;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto nonce = read_challenge(bytes)) LOCKSTEP_CHECK(make_challenge(*nonce) == bytes);
  const auto hello = read_hello(bytes);
  const JudgedHello judged = judge_hello(kSecret, kRanks, ConnectionPurpose::kActors, kNonce, bytes);
  if (!hello) {
    LOCKSTEP_CHECK(judged.refusal == RefusalKind::kForeign);
    return 0;
  }
  LOCKSTEP_CHECK(may_be_hello(bytes) && may_be_hello(bytes.substr(0, size / 2)));
  if (judged.refusal) {
    LOCKSTEP_CHECK(!to_string(*judged.refusal).empty());
    return 0;
  }
  LOCKSTEP_CHECK(judged.claim.rank > 0 && judged.claim.rank < kRanks, judged.claim.rank);
  const std::string_view own_nonce = bytes.substr(size - kWelcomeBytes - kNonceBytes, kNonceBytes);
  LOCKSTEP_CHECK(make_hello(kSecret, kNonce, judged.claim, own_nonce) == bytes);
  return 0;
}
