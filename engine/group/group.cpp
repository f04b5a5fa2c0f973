#include "lockstep/group.h"

#include <fmt/format.h>

#include <utility>

#include "engine/group/agreement.h"
#include "engine/group/environment.h"
#include "engine/group/state.h"

namespace lockstep {

using group::State;

namespace group {
namespace {

Result<void> check_one_group(const GroupOptions& options, std::string_view advice) {
  if (options.ranks_per_replica == 0) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[engine/group] cannot make replicas: found ranks_per_replica {} without mpirun's or srun's "
                           "ranks, expected 0; {}",
                           options.ranks_per_replica, advice)};
}

}  // namespace
}  // namespace group

std::unique_ptr<Group> State::wrap(std::unique_ptr<State> state) {
  return std::unique_ptr<Group>(new Group(std::move(state)));
}

Group::Group(std::unique_ptr<State> state) : state_(std::move(state)) {}
Group::~Group() = default;

Result<std::unique_ptr<Group>> Group::alone(GroupOptions options) {
  return group::open_threads(1, std::move(options), {});
}

Result<std::unique_ptr<Group>> Group::threads(int ranks, GroupOptions options) {
  return group::open_threads(ranks, std::move(options), {});
}

Result<std::unique_ptr<Group>> Group::processes(int ranks, GroupOptions options) {
  return group::open_processes(ranks, std::move(options), {});
}

Result<std::unique_ptr<Group>> Group::mpi(GroupOptions options) {
  LOCKSTEP_TRY(auto launch, transport::read_launch_environment(group::environment));
  return group::open_launched(std::move(launch), std::move(options), {});
}

Result<std::unique_ptr<Group>> Group::mpi(MpiHandle communicator, GroupOptions options) {
  LOCKSTEP_TRY_VOID(group::check_one_group(options, "split the communicator instead"));
  LOCKSTEP_TRY(auto state, State::of_communicator(communicator, std::move(options), {}));
  return State::wrap(std::move(state));
}

int Group::rank() const { return state_->first_rank(); }
int Group::size() const { return state_->size(); }
int Group::replica() const { return state_->replica().index; }
int Group::replicas() const { return state_->replica().count; }
std::string Group::name() const { return state_->name(); }

std::optional<Error> Group::failure() const { return state_->failure(); }

std::vector<RankPresence> Group::presence() const { return state_->presence(); }
void Group::announce_leave() { state_->announce_leave(); }

void Group::fail(const Error& error) { state_->fail(state_->first_rank(), error); }

Result<void> Group::all_succeeded(const Result<void>& mine) {
  return group::all_succeeded(state_->own_bootstrap(), mine);
}

Result<void> Group::agree(std::string_view what, std::string_view statement) {
  return transport::agree(state_->own_bootstrap(), what, statement);
}

Result<std::string> Group::broadcast(std::string_view text) {
  return group::value_of_rank_0(state_->own_bootstrap(), std::string(text));
}

Result<std::vector<std::string>> Group::exchange_with_replicas(std::string_view text) {
  LOCKSTEP_TRY(std::vector<std::string> told, state_->exchange_on_launch(leads() ? text : std::string_view()));
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < told.size(); rank += static_cast<size_t>(size())) {
    texts.push_back(std::move(told[rank]));
  }
  return texts;
}

Result<void> Group::leave() { return state_->leave(); }

namespace group {

Result<std::unique_ptr<Group>> open_launched(transport::LaunchEnvironment launch, GroupOptions options, Hooks hooks) {
  LOCKSTEP_TRY(auto state, State::of_launch(std::move(launch), std::move(options), std::move(hooks)));
  return State::wrap(std::move(state));
}

namespace {

Result<void> check_count(int ranks) {
  if (ranks >= 1) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[engine/group] cannot make a group: found {} ranks, expected at least 1", ranks)};
}

}  // namespace

Result<std::unique_ptr<Group>> open_processes(int ranks, GroupOptions options, Hooks hooks) {
  LOCKSTEP_TRY_VOID(check_count(ranks));
  LOCKSTEP_TRY_VOID(check_one_group(options, "start the program with mpirun"));
  LOCKSTEP_TRY(auto state, State::of_processes(ranks, std::move(options), std::move(hooks)));
  return State::wrap(std::move(state));
}

Result<std::unique_ptr<Group>> open_threads(int ranks, GroupOptions options, Hooks hooks) {
  LOCKSTEP_TRY_VOID(check_count(ranks));
  LOCKSTEP_TRY_VOID(check_one_group(options, "open several groups"));
  LOCKSTEP_TRY(auto state, State::of_threads(ranks, std::move(options), std::move(hooks)));
  return State::wrap(std::move(state));
}

}  // namespace group
}  // namespace lockstep
