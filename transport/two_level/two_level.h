// Collectives over several hosts: fast within a host, few and large messages between hosts, the same bits as on one
// host.
//
//   all_reduce   within: slice k of the host's own sums, on rail k │ between: the rest of the tree │ within: all slices
//   all_gather   within: to the rails │ between: a rail gathers its ranks' parts │ within: the rails' parts
//   broadcast    between: on the root's rail │ within: from it          (on the root's host: within, if it has no rail)
//   barrier      within │ between, on rail 0 │ within
#pragma once

#include <memory>

#include "runtime/device/hosts.h"
#include "transport/bootstrap.h"
#include "transport/parts.h"

namespace lockstep::transport::two_level {

using device::Host;
using device::Hosts;

/// The parts of a rank's communicator.
struct Parts {
  std::unique_ptr<HostCommunicator> within;   // of the ranks of its host, by their local numbers
  std::unique_ptr<PartCommunicator> between;  // of its rail, by host; null for a rank that is on none
};

struct Options {
  int64_t piece_bytes = 1 << 20;  // of a rank's roots that one round moves; the same on every rank
  int64_t rail_bytes = 64 << 10;  // of a message that justify one more rail
};

/// Composes the communicator of `rank` of `hosts`. Only its parts add and allocate between two steps; a sum
/// is planned when its split first occurs. Errors at a deadline name missing world ranks and their hosts; for another
/// host they can name only all its ranks together.
std::unique_ptr<device::Communicator> make_communicator(Hosts hosts, int rank, Parts parts, const WaitOptions& wait,
                                                        const Options& options = {});

}  // namespace lockstep::transport::two_level
