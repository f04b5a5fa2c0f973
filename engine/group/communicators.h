// Tensor communicators between the ranks of a group, and their selection.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/group/member.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device_exchange.h"
#include "runtime/device/rank_place.h"
#include "transport/bootstrap.h"
#include "transport/choosing.h"
#include "transport/parts.h"
#include "transport/shm/shm.h"
#include "transport/two_level/two_level.h"

namespace lockstep::group {

/// A communicator and, if it was measured, the choice for each size.
struct ChosenCommunicator {
  std::unique_ptr<device::Communicator> communicator;  // null in a group of one
  std::vector<transport::Choice> choices;
  std::vector<std::string> notes;  // messages for the user; the same on every rank
};

/// How the parts of a two-level communicator move bytes.
struct TwoLevelOptions {
  transport::shm::Options within;
  transport::two_level::Options across;
};

/// Makes a message communicator between `members`, ranks of the group. @collective @blocking
using MakePart = std::function<Result<std::unique_ptr<transport::PartCommunicator>>(std::vector<int> members)>;

/// Connects ranks by shared memory inside the hosts of `places` and by messages between the hosts. Fails on every rank
/// with the error of a host that cannot share memory. @collective @blocking
Result<std::unique_ptr<device::Communicator>> make_two_level(transport::Bootstrap& bootstrap, const MakePart& make_part,
                                                             const std::vector<device::RankPlace>& places,
                                                             const transport::WaitOptions& wait,
                                                             TwoLevelOptions options = {});
Result<std::unique_ptr<device::Communicator>> make_two_level(Member& member,
                                                             const std::vector<device::RankPlace>& places);

/// "auto" and the communicators that a user may name.
std::vector<std::string> communicator_names();

/// `name` is one of `communicator_names`. auto selects, for each message size, the fastest of the communicators that
/// fit the launch and the hosts; `notes` lists those that failed. Fails on every rank with `kInvalidArgument` when
/// `name` does not fit. @collective @blocking
Result<ChosenCommunicator> make_communicator(Member& member, const std::string& name,
                                             const std::vector<device::RankPlace>& places);

/// What connects devices of ranks on several hosts, for their backend.
device::ConnectDevices connect_devices(const Member& member);
/// How devices of several hosts would be connected, or why not; for people. @blocking
std::string describe_device_connections();

}  // namespace lockstep::group
