#include "launcher/process/launch_siblings.h"

#include <fmt/format.h>

#include <random>

#include "engine/group/state.h"

namespace lockstep::launcher {

Result<void> all_succeeded_on_launch(Group& group, const Result<void>& mine) {
  return group::State::of(group).all_succeeded_on_launch(mine);
}

Result<void> agree_on_launch(Group& group, std::string_view what, std::string_view statement) {
  return group::State::of(group).agree_on_launch(what, statement);
}

std::string address_on_launch(Group& group) { return group::State::of(group).launch_address(); }

std::string random_secret() {
  std::random_device random;
  std::string secret;
  for (int i = 0; i < 8; ++i) secret += fmt::format("{:08x}", random());
  return secret;
}

}  // namespace lockstep::launcher
