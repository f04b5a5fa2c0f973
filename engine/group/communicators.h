// The ways in which the ranks of a group can exchange tensors, and which of them is taken.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/group/member.h"
#include "runtime/device/communicator.h"
#include "runtime/device/rank_place.h"
#include "transport/bootstrap.h"
#include "transport/choosing.h"
#include "transport/parts.h"
#include "transport/shm/shm.h"
#include "transport/two_level/two_level.h"

namespace lockstep::group {

/// A communicator and, when it was measured, what was chosen for which size.
struct ChosenCommunicator {
  std::unique_ptr<device::Communicator> communicator;  // null in a group of one
  std::vector<transport::Choice> choices;
  std::vector<std::string> notes;  // for the user, once; the same on every rank
};

/// How the parts of a two-level communicator move bytes.
struct TwoLevelOptions {
  transport::shm::Options within;
  transport::two_level::Options across;
};

/// Makes a communicator of messages between `members`, ranks of the group. @collective @blocking
using MakePart = std::function<Result<std::unique_ptr<transport::PartCommunicator>>(std::vector<int> members)>;

/// Shared memory inside the hosts of `places`, the parts' messages between them. Fails alike on every rank, with the
/// error of a host that cannot share memory. @collective @blocking
Result<std::unique_ptr<device::Communicator>> make_two_level(transport::Bootstrap& bootstrap, const MakePart& make_part,
                                                             const std::vector<device::RankPlace>& places,
                                                             const transport::WaitOptions& wait,
                                                             TwoLevelOptions options = {});
Result<std::unique_ptr<device::Communicator>> make_two_level(Member& member,
                                                             const std::vector<device::RankPlace>& places);

/// "auto", and the ways that a user may name.
std::vector<std::string> communicator_names();

/// `name` is one of `communicator_names`. auto takes what is fastest per message size of what fits the launch
/// and the hosts; what it has to do without is said in `notes`. Fails with `kInvalidArgument` when the name does not
/// fit, and then alike on every rank. @collective @blocking
Result<ChosenCommunicator> make_communicator(Member& member, const std::string& name,
                                             const std::vector<device::RankPlace>& places);

}  // namespace lockstep::group
