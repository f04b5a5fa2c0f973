// A communicator that uses the fastest of several communicators for each message size. They are timed at start; rank 0
// decides for all ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"

namespace lockstep::transport {

/// One line of the decision: messages of up to `bytes` use communicator `name`.
struct Choice {
  int64_t bytes = 0;
  std::string name;
  double microseconds = 0;  // median of the chosen communicator
};

/// Takes ownership of the candidates (at least one, all of the same group), times all-reduce and all-gather of 1 KiB …
/// 4 MiB on each, agrees on a choice, and stores it in `choices` if that is not null.
/// @collective @blocking
Result<std::unique_ptr<device::Communicator>> choose_communicator(
    Bootstrap& bootstrap, std::vector<std::unique_ptr<device::Communicator>> candidates, const WaitOptions& wait,
    std::vector<Choice>* choices);

}  // namespace lockstep::transport
