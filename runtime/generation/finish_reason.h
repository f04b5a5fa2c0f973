// Why a sequence ended.
#pragma once

#include <string_view>

namespace lockstep::generation {

enum class FinishReason {
  kEos,        // it produced one of its EOS tokens, which is part of the output
  kLength,     // it reached its new-token budget
  kStop,       // the client said so: a stop string, a time limit, a user's criterion
  kCancelled,  // the whole job was cancelled
  kError,      // the job failed
};

/// As in reports: "eos", "length", "stop", "cancelled", "error".
std::string_view to_string(FinishReason reason);

}  // namespace lockstep::generation
