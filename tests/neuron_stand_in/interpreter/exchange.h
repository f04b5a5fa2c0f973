// The exchange between ranks: one operation, from which the interpreter builds all collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace lockstep::stand_in {

/// Why a run did not end well.
struct Fault {
  enum class Kind {
    kOutOfRange,   // an index of a gather, a scatter or a dynamic slice lies outside
    kNotANumber,   // an output has a NaN
    kPeerMissing,  // a rank was missing at the deadline
  } kind = Kind::kOutOfRange;
  std::string message;
};

/// Empty when all went well.
using Outcome = std::optional<Fault>;

class Exchange {
 public:
  virtual ~Exchange() = default;

  /// The ranks of `group` (this one among them) each give `own`, of one size; `all` receives them in the group's order.
  /// Every rank of the group calls it. @collective @blocking (with a deadline)
  virtual Outcome all_gather(std::span<const int64_t> group, std::span<const std::byte> own,
                             std::span<std::byte> all) = 0;
};

}  // namespace lockstep::stand_in
