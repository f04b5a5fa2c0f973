// Ranks as threads of one process: the bootstrap and the communicator of `--launch threads` and of every multi-rank
// test. Sums are the same to the bit as with processes.
#pragma once

#include <memory>

#include "transport/bootstrap.h"
#include "transport/parts.h"
#include "transport/waiting.h"

namespace lockstep::transport::loopback {

/// The state shared by the threads. Outlives everything that is made from it.
class Group;

/// A group of `size` ranks; one per process run, shared by reference between its threads. `message_bytes` is the
/// largest piece that one round moves (larger messages go in several).
std::shared_ptr<Group> make_group(int size, size_t message_bytes = 1 << 20,  // shared: ranks end in any order
                                  Crowding crowding = Crowding::kAsPlaced);

std::unique_ptr<Bootstrap> make_bootstrap(std::shared_ptr<Group> group, int rank, const WaitOptions& wait);

std::unique_ptr<HostCommunicator> make_communicator(std::shared_ptr<Group> group, int rank, const WaitOptions& wait);

}  // namespace lockstep::transport::loopback
