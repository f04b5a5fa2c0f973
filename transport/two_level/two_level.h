// Collectives over several hosts: fast inside a host, few and large messages between hosts, the same bits as on one.
//
//   all_reduce   within: slice k of what the host adds alone, on rail k │ between: the tree's rest │ within: all slices
//   all_gather   within: to the rails │ between: a rail gathers its ranks' parts │ within: what the rails have
//   broadcast    between: on the root's rail │ within: from it          (on the root's host: within, if it has no rail)
//   barrier      within │ between, on rail 0 │ within
#pragma once

#include <memory>

#include "transport/parts.h"
#include "transport/two_level/hosts.h"

namespace lockstep::transport::two_level {

/// What a rank's communicator is composed of.
struct Parts {
  std::unique_ptr<HostCommunicator> within;   // of the ranks of its host, by their local numbers
  std::unique_ptr<PartCommunicator> between;  // of its rail, by host; null for a rank that is on none
};

struct Options {
  int64_t piece_bytes = 1 << 20;  // of a rank's roots that one round moves; the same on every rank
  int64_t rail_bytes = 64 << 10;  // of a message that are worth a rail of their own
};

/// Composes the communicator of `rank` of `hosts`. Never adds or allocates between two steps but as the parts do; sums
/// are planned when their split is seen first. Errors at a deadline name missing ranks by their numbers in the world,
/// and their hosts; of another host only the host's ranks together are known to be missing.
std::unique_ptr<device::Communicator> make_communicator(Hosts hosts, int rank, Parts parts, const WaitOptions& wait,
                                                        const Options& options = {});

}  // namespace lockstep::transport::two_level
