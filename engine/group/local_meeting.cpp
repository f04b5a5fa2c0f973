#include "engine/group/local_meeting.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "engine/group/environment.h"
#include "engine/group/watched_meeting.h"
#include "transport/local/local.h"

namespace lockstep::group {
namespace {

namespace local = transport::local;
using transport::LaunchEnvironment;
using transport::Launcher;

constexpr auto kEndDeadline = std::chrono::seconds(20);  // of the end of the other processes

class LocalMeeting final : public WatchedMeeting {
 public:
  LocalMeeting(State& group, std::unique_ptr<RankProcesses> children)
      : WatchedMeeting(group), children_(std::move(children)) {}

  int rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }

  Result<std::unique_ptr<transport::Bootstrap>> open() override {
    const LaunchEnvironment& launch = group_.launch();
    group_.phases().enter("launch");
    LOCKSTEP_TRY(world_, local::World::join(launch.meeting.value_or(-1), launch.rank, launch.size.value_or(1)));
    if (children_ != nullptr) LOCKSTEP_TRY_VOID(start_children());
    watch_.open_early();
    group_.phases().enter("bootstrap");
    LOCKSTEP_TRY_VOID(meet());
    LOCKSTEP_TRY(auto bootstrap, group_.make_bootstrap(world_->rank(), group_.own_abort()));
    if (group_.hooks().meeting == Meeting::kAgreed) LOCKSTEP_TRY_VOID(agree(*bootstrap));
    return bootstrap;
  }

  Result<std::unique_ptr<transport::Bootstrap>> make_bootstrap(const transport::WaitOptions& wait) override {
    return world_->make_bootstrap(wait);
  }

  bool has_messages() const override { return false; }
  Result<std::unique_ptr<transport::PartCommunicator>> make_communicator(std::span<const device::RankPlace>,
                                                                         const transport::WaitOptions&,
                                                                         std::vector<int>) override {
    return Error{ErrorKind::kUnsupported,
                 "[engine/group] cannot send messages between ranks: found ranks that were started without MPI, "
                 "expected shared memory; start them with mpirun, or use --communicator shm"};
  }

  bool needs_this_thread() const override { return false; }
  void lend(const std::function<bool()>&) override {}

  Result<void> leave() override {
    if (children_ != nullptr) children_->expect_end();
    LOCKSTEP_TRY(const auto last, world_->make_bootstrap(group_.own_wait()));
    LOCKSTEP_TRY_VOID(last->barrier());
    watch_.leave(kEndDeadline);
    return children_ == nullptr ? ok() : children_->wait(kEndDeadline);
  }

 private:
  Result<void> start_children() {
    return children_->start([this](const Error& error) {
      // A rank that fails has told its reason before it ends.
      if (group_.hooks().detection == PeerDetection::kOn) group_.end_by_peer(watch_.cause_of(error));
    });
  }

  /// The first exchange, which finds missing ranks within the start's deadline.
  Result<void> meet() {
    transport::WaitOptions wait = group_.own_wait();
    wait.deadline = group_.options().start_deadline;
    LOCKSTEP_TRY(const auto first, world_->make_bootstrap(wait));
    return first->barrier();
  }

  std::unique_ptr<local::World> world_;
  std::unique_ptr<RankProcesses> children_;  // ends first: its threads use the rest
};

std::string random_name() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 4; ++i) name += fmt::format("{:08x}", random());
  return name;
}

Error other_launch(std::string found, int ranks, std::string_view advice) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[engine/group] cannot start {} ranks as processes: found {}, expected none before; {}", ranks,
                      found, advice)};
}

/// Rank 0 among `ranks`.
LaunchEnvironment first_of(int ranks, int meeting) {
  LaunchEnvironment launch{.launcher = Launcher::kLockstep, .size = ranks, .local_size = ranks};
  launch.job = random_name();
  launch.meeting = meeting;
  return launch;
}

}  // namespace

Result<LocalSeat> find_seat(int ranks, const LaunchEnvironment& launch) {
  if (launch.launcher == Launcher::kLockstep) {
    if (launch.size == ranks) return LocalSeat{launch, nullptr};
    return other_launch(fmt::format("rank {} of {}, as which this process was started", launch.rank, *launch.size),
                        ranks, "open the same group in every rank");
  }
  if (launch.size.value_or(0) != 1) {
    return other_launch(fmt::format("ranks that {} has started", to_string(launch.launcher)), ranks,
                        "omit --launch processes, or start lockstep without the launcher");
  }
  LOCKSTEP_TRY(std::vector<std::string> command, own_command());
  LOCKSTEP_TRY(local::MeetingFile file, local::MeetingFile::create(ranks));
  LocalSeat seat{first_of(ranks, file.descriptor()), nullptr};
  seat.children =
      std::make_unique<RankProcesses>(std::move(command), whole_environment(), seat.launch, std::move(file));
  return seat;
}

std::unique_ptr<ProcessMeeting> make_local_meeting(State& group, std::unique_ptr<RankProcesses> children) {
  return std::make_unique<LocalMeeting>(group, std::move(children));
}

}  // namespace lockstep::group
