// What the groups of ranks of one launch do together, at their start. Groups of processes that lockstep or the program
// has started are alone.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/group.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Group::all_succeeded between all ranks of the launch. @collective @blocking
Result<void> all_succeeded_on_launch(Group& group, const Result<void>& mine);

/// Group::agree between all ranks of the launch. @collective @blocking
Result<void> agree_on_launch(Group& group, std::string_view what, std::string_view statement);

/// The address of this host for processes of the launch's other hosts.
std::string address_on_launch(Group& group);

}  // namespace lockstep::launcher
