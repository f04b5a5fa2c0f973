#include "launcher/process/launch_siblings.h"

#include "engine/group/state.h"

namespace lockstep::launcher {

Result<void> all_succeeded_on_launch(Group& group, const Result<void>& mine) {
  return group::State::of(group).all_succeeded_on_launch(mine);
}

Result<void> agree_on_launch(Group& group, std::string_view what, std::string_view statement) {
  return group::State::of(group).agree_on_launch(what, statement);
}

std::string address_on_launch(Group& group) { return group::State::of(group).launch_address(); }

}  // namespace lockstep::launcher
