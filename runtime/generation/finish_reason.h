// The reason for a sequence's end.
#pragma once

#include <string_view>

namespace lockstep::generation {

enum class FinishReason {
  kEos,        // an EOS token, which is part of the output
  kLength,     // the budget of new tokens
  kStop,       // the client's request: a stop string, a time limit, a user's criterion
  kCancelled,  // the whole job was cancelled
  kError,      // the job failed
};

/// The name in reports: "eos", "length", "stop", "cancelled", "error".
std::string_view to_string(FinishReason reason);

}  // namespace lockstep::generation
