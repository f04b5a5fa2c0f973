// A communicator that sends each message by the fastest of several ways. The ways are timed at start, per message size;
// rank 0 decides and every rank takes its word, so all ranks always choose alike.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"

namespace lockstep::transport {

/// One line of the decision: messages of up to `bytes` go by `name`.
struct Choice {
  int64_t bytes = 0;
  std::string name;
  double microseconds = 0;  // median of the chosen way
};

/// Takes the candidates over (at least one; each of the same group), times all-reduce and all-gather of 1 KiB … 4 MiB
/// on each, agrees, and reports what was chosen in `choices` if that is not null.
/// @collective @blocking
Result<std::unique_ptr<device::Communicator>> choose_communicator(
    Bootstrap& bootstrap, std::vector<std::unique_ptr<device::Communicator>> candidates, const WaitOptions& wait,
    std::vector<Choice>* choices);

}  // namespace lockstep::transport
