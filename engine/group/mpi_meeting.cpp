#include "engine/group/mpi_meeting.h"

#include <fmt/format.h>

#include <utility>

#include "engine/group/agreement.h"
#include "engine/group/control_plane.h"
#include "engine/group/environment.h"
#include "engine/group/launch_watch.h"
#include "engine/group/replicas.h"
#include "engine/group/watchdog.h"
#include "engine/group/watched_meeting.h"
#include "transport/mpi/mpi.h"
#include "transport/network.h"
#include "transport/waiting.h"

namespace lockstep::group {
namespace {

namespace mpi = transport::mpi;

constexpr auto kLeaveDeadline = std::chrono::seconds(20);  // of MPI_Finalize, which spins with MPICH
constexpr auto kPartDeadline = std::chrono::seconds(20);   // of other replicas' end, without which there is no Finalize

/// Only rank 0 knows which ranks are missing: at the start deadline the others give it this long to report them first.
constexpr auto kWordOfRank0 = std::chrono::milliseconds(500);

// The common part of both kinds of meeting, once MPI's world exists.
class MpiMeeting : public WatchedMeeting {
 public:
  using WatchedMeeting::WatchedMeeting;

  int rank() const final { return world_->rank(); }
  int size() const final { return world_->size(); }

  Result<std::unique_ptr<transport::Bootstrap>> make_bootstrap(const transport::WaitOptions& wait) final {
    return world_->make_bootstrap(wait);
  }
  bool has_messages() const final { return true; }
  Result<std::unique_ptr<transport::PartCommunicator>> make_communicator(std::span<const device::RankPlace> places,
                                                                         const transport::WaitOptions& wait,
                                                                         std::vector<int> members) final {
    return world_->make_communicator(places, wait, std::move(members));
  }

  bool needs_this_thread() const final { return world_ != nullptr && world_->is_funneled(); }
  void lend(const std::function<bool()>& until) final {
    // The exchange that is performed here has its own deadline and abort flag, so this wait restarts its deadline.
    const AbortFlag never;
    while (!until()) static_cast<void>(world_->lend(until, group_.wait_options(never)));
  }

  Result<void> leave() final {
    const Duration limit = whole_ == nullptr ? kLeaveDeadline : kLeaveDeadline + kPartDeadline;
    const Watchdog watchdog(limit, [&] { give_up("MPI_Finalize", limit); });
    LOCKSTEP_TRY_VOID(world_->finish(group_.own_wait()));
    watch_.leave(kLeaveDeadline);
    if (whole_ != nullptr) leave_whole();
    return ok();
  }

 protected:
  /// Takes the world that MPI has connected: the group's own, or that of a launch of several replicas.
  Result<std::unique_ptr<transport::Bootstrap>> enter(std::unique_ptr<mpi::World> world) {
    const int each = group_.options().ranks_per_replica;
    if (each == 0 || each == world->size()) {
      world_ = std::move(world);
      group_.set_launch({});
    } else {
      LOCKSTEP_TRY(const Replica replica, find_replica(world->rank(), world->size(), each));
      whole_ = std::move(world);
      const Result<void> met = meet_replicas(replica);
      if (!met.has_value()) return from_launch_ranks(met.error(), replica);
      world_ = whole_->part(each, transport::is_crowded(group_.launch_places()));
    }
    LOCKSTEP_TRY(auto bootstrap, group_.make_bootstrap(world_->rank(), group_.own_abort()));
    if (group_.hooks().meeting == Meeting::kAgreed) LOCKSTEP_TRY_VOID(agree(*bootstrap));
    return bootstrap;
  }

  /// Reports a library call that does not return: the program may end its process.
  void give_up(std::string_view operation, Duration limit) {
    const Error error = group_.fail(
        group_.first_rank(), {ErrorKind::kDeadlineExceeded,
                              fmt::format("[engine/group] {} did not end within {:.3g} s{}; check that every rank was "
                                          "started and can reach the others",
                                          operation, to_seconds(limit), watch_.missing())});
    if (group_.options().on_stuck) group_.options().on_stuck(error);
  }

  std::unique_ptr<mpi::World> whole_;  // of all replicas; null: the group is alone
  std::unique_ptr<mpi::World> world_;

 private:
  /// All replicas compare their programs and see each other's places. @collective @blocking
  Result<void> meet_replicas(const Replica& replica) {
    LOCKSTEP_TRY(auto bootstrap, whole_->make_bootstrap(group_.own_wait()));
    if (const auto& wrap = group_.hooks().bootstrap) bootstrap = wrap(group_.first_rank(), std::move(bootstrap));
    const int ranks = group_.options().ranks_per_replica;
    const std::string each = fmt::format("ranks of a replica {}\n", ranks);
    LOCKSTEP_TRY_VOID(transport::agree(*bootstrap, "the program", statement_of_program() + each));
    LOCKSTEP_TRY(auto places, places_of_job(*bootstrap, group_.launch()));
    const Log& log = group_.log(group_.first_rank());
    LOCKSTEP_TRY(const ControlPlane plane, find_control_plane(group_.options().network, *bootstrap, log));
    if (whole_->rank() == 0) log.info("{} replicas of {} rank{}", replica.count, ranks, ranks == 1 ? "" : "s");
    LOCKSTEP_TRY_VOID(launch_watch_.open(group_, *bootstrap, plane));
    group_.set_launch({.replica = replica,
                       .bootstrap = std::move(bootstrap),
                       .places = std::move(places),
                       .address = plane.own_address});
    return ok();
  }

  /// MPI_Finalize waits for every process, so it is only called when all replicas end together. While another one still
  /// works, or when one was lost, this one ends without it.
  void leave_whole() {
    const transport::WaitOptions wait{
        .abort = &launch_watch_.lost(), .clock = &group_.clock(), .deadline = kPartDeadline};
    Result<void> left = meet_at_end(wait);
    launch_watch_.leave();
    if (left.has_value()) left = whole_->finish(wait);
    if (left.has_value()) return;
    group_.log(group_.first_rank())
        .warning("replica {} ends without MPI_Finalize: {}", group_.replica().index, left.error().message);
  }

  Result<void> meet_at_end(const transport::WaitOptions& wait) {
    LOCKSTEP_TRY(const auto last, whole_->make_bootstrap(wait));
    return last->barrier();
  }

  LaunchWatch launch_watch_;
};

class LaunchedMeeting final : public MpiMeeting {
 public:
  using MpiMeeting::MpiMeeting;

  Result<std::unique_ptr<transport::Bootstrap>> open() override {
    const Duration limit = group_.options().start_deadline;
    const Watchdog watchdog(limit + (group_.launch().rank == 0 ? Duration{} : kWordOfRank0),
                            [&] { give_up("the start (MPI_Init and the first exchanges)", limit); });
    group_.phases().enter("launch");
    mpi::LibraryChoice choice = mpi::library_choice(environment, group_.launch());
    if (!group_.options().mpi_library.empty()) choice.file = group_.options().mpi_library;
    LOCKSTEP_TRY(const mpi::ChosenLibrary library, mpi::choose_library(choice));
    watch_.open_early();
    group_.phases().enter("bootstrap");
    prepare();
    LOCKSTEP_TRY(auto world, mpi::start(library, group_.own_wait()));
    return enter(std::move(world));
  }

 private:
  /// Sets the variables that MPI reads when it starts. The other MPI library's variables do no harm.
  void prepare() const {
    const transport::LaunchEnvironment& launch = group_.launch();
    // A process that was not started by its own MPI's mpirun must not start daemons: `start` detects this case.
    set_mpi_variable("OMPI_MCA_ess_singleton_isolated", "1");
    // Waiting ranks yield cores that they share. mpirun sets this by itself, srun does not.
    const auto threads = static_cast<int>(transport::own_hardware_threads().size());
    if (launch.local_size.value_or(launch.size.value_or(1)) > threads)
      set_mpi_variable("OMPI_MCA_mpi_yield_when_idle", "1");
    const std::string& network = group_.options().network;
    if (network.empty()) return;
    const auto found = transport::find_interface_towards(transport::own_interfaces(), network);
    if (!found) return;  // reported later, by a rank that has the facts of all hosts
    // Open MPI takes no subnets of IPv6.
    set_mpi_variable("OMPI_MCA_btl_tcp_if_include",
                     found->address.is_ipv4() ? transport::subnet_of(*found) : found->name);
    set_mpi_variable("FI_TCP_IFACE", found->name);  // MPICH on libfabric
  }

  /// Sets a variable of an MPI library unless the user has set it.
  void set_mpi_variable(const char* name, const std::string& value) const {
    const auto& set = group_.options().set_environment;
    if (set && !environment(name)) set(name, value);
  }
};

class AdoptedMeeting final : public MpiMeeting {
 public:
  AdoptedMeeting(State& group, MpiHandle communicator) : MpiMeeting(group), communicator_(communicator) {}

  Result<std::unique_ptr<transport::Bootstrap>> open() override {
    group_.phases().enter("bootstrap");
    transport::WaitOptions wait = group_.own_wait();
    wait.deadline = group_.options().start_deadline;
    LOCKSTEP_TRY(auto world, mpi::adopt(communicator_.fortran, wait));
    return enter(std::move(world));
  }

 private:
  const MpiHandle communicator_;
};

}  // namespace

std::unique_ptr<ProcessMeeting> make_launched_meeting(State& group) { return std::make_unique<LaunchedMeeting>(group); }

std::unique_ptr<ProcessMeeting> make_adopted_meeting(State& group, MpiHandle communicator) {
  return std::make_unique<AdoptedMeeting>(group, communicator);
}

}  // namespace lockstep::group
