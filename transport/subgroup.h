// Some ranks of a group as a group of their own: what is made for "all ranks" can be made for those of one host.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"

namespace lockstep::transport {

/// A bootstrap of the ranks that `among` connects. `places` are theirs, in the order of their new numbers, and keep
/// their numbers in the world (`RankPlace::rank`), by which errors call them.
std::unique_ptr<Bootstrap> make_subgroup(std::unique_ptr<device::Communicator> among, std::vector<RankPlace> places);

}  // namespace lockstep::transport
