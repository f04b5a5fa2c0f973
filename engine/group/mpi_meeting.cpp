#include "engine/group/mpi_meeting.h"

#include <fmt/format.h>

#include <utility>

#include "engine/group/environment.h"
#include "engine/group/watchdog.h"
#include "engine/group/watched_meeting.h"
#include "transport/mpi/mpi.h"
#include "transport/network.h"

namespace lockstep::group {
namespace {

namespace mpi = transport::mpi;

constexpr auto kLeaveDeadline = std::chrono::seconds(20);  // of MPI_Finalize, which spins with MPICH

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
    const Watchdog watchdog(kLeaveDeadline, [this] { give_up("MPI_Finalize", kLeaveDeadline); });
    LOCKSTEP_TRY_VOID(world_->finish(group_.own_wait()));
    watch_.leave(kLeaveDeadline);
    return ok();
  }

 protected:
  /// Reports a library call that does not return: the program may end its process.
  void give_up(std::string_view operation, Duration limit) {
    const Error error = group_.fail(
        group_.first_rank(), {ErrorKind::kDeadlineExceeded,
                              fmt::format("[engine/group] {} did not end within {:.3g} s{}; check that every rank was "
                                          "started and can reach the others",
                                          operation, to_seconds(limit), watch_.missing())});
    if (group_.options().on_stuck) group_.options().on_stuck(error);
  }

  std::unique_ptr<mpi::World> world_;
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
    LOCKSTEP_TRY(world_, mpi::start(library, group_.own_wait()));
    LOCKSTEP_TRY(auto bootstrap, group_.make_bootstrap(world_->rank(), group_.own_abort()));
    if (group_.hooks().meeting == Meeting::kAgreed) LOCKSTEP_TRY_VOID(agree(*bootstrap));
    return bootstrap;
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
    set_mpi_variable("OMPI_MCA_btl_tcp_if_include", transport::subnet_of(*found));
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
    LOCKSTEP_TRY(world_, mpi::adopt(communicator_.fortran, wait));
    LOCKSTEP_TRY(auto bootstrap, group_.make_bootstrap(world_->rank(), group_.own_abort()));
    LOCKSTEP_TRY_VOID(agree(*bootstrap));
    return bootstrap;
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
