// Runs the groups of a point at the same time, as child processes.
//
//   group 0   starts, loads ─┐            ┌─ repetition ─┐            ┌─ repetition …
//   group 1   starts, loads ─┴─ barrier ──┴─ repetition ─┴─ barrier ──┴─ repetition …      the first that fails ends
//   all
#pragma once

#include <functional>
#include <optional>

#include "runtime/process/child_process.h"

namespace lockstep::launcher {

/// The command of a group. `barrier`: its inherited end, if there are several groups.
using GroupCommand = std::function<process::ChildCommand(size_t group, std::optional<int> barrier)>;

/// The outcome of the group that failed first, or of one that worked.
struct GroupsOutcome {
  process::ChildOutcome outcome;  // with the time until all had ended
  size_t group = 0;
};

/// Starts all groups and waits for their ends. When one fails or `stop` is raised, the others are ended. Fails when one
/// cannot be started. @blocking
Result<GroupsOutcome> run_groups(size_t groups, const GroupCommand& command, const process::ChildLimits& limits,
                                 const process::ChildStop& stop);

}  // namespace lockstep::launcher
