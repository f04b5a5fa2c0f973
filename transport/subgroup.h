// A subgroup of ranks, for example those of one host, with the interface of a whole group.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"

namespace lockstep::transport {

/// A bootstrap of the ranks that `among` connects. `places` are theirs, in the order of their new numbers, and keep
/// their world ranks (`RankPlace::rank`), which errors name.
std::unique_ptr<Bootstrap> make_subgroup(std::unique_ptr<device::Communicator> among, std::vector<RankPlace> places);

}  // namespace lockstep::transport
