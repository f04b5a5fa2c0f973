#include "launcher/ranks/ranks.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include "launcher/process/interruption.h"
#include "launcher/process/rank_lifecycle.h"
#include "launcher/process/recorded_bootstrap.h"
#include "launcher/ranks/agreements.h"
#include "launcher/ranks/control_plane.h"
#include "launcher/ranks/group_watch.h"
#include "launcher/ranks/guard.h"
#include "launcher/ranks/watchdog.h"
#include "runtime/checkpoint/read_ahead.h"
#include "runtime/core/atomic_file.h"
#include "runtime/probe/buffer.h"
#include "transport/launch_environment.h"
#include "transport/mpi/mpi.h"
#include "transport/network.h"

namespace lockstep::launcher {
namespace {

constexpr auto kLeaveDeadline = std::chrono::seconds(20);  // of MPI_Finalize, which spins with MPICH

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Error interrupted() { return {ErrorKind::kCancelled, "[launcher] interrupted; start again to run the job"}; }

/// What a signal does: Ctrl-C and SIGTERM end the session on every rank, and before there is one every wait.
void take_signal(int signal, RankLifecycle& office, AbortFlag& abort, GroupWatch* watch) {
  if (signal == SIGUSR1) return office.report_activity();
  const Error error = office.settle(interrupted());
  if (!office.monitor().cancel()) abort.raise(error);
  if (watch == nullptr) return;
  office.end_within(kGrace);
  watch->tell(error);
}

/// Rank 0 alone knows who has not come: at the start's deadline the others leave it this long to say so first.
constexpr auto kWordOfRank0 = std::chrono::milliseconds(500);

/// Ends the process where a library call does not return.
[[noreturn]] void give_up(RankLifecycle& office, GroupWatch& watch, const char* operation, Duration limit) {
  const Error error =
      office.settle({ErrorKind::kDeadlineExceeded,
                     fmt::format("[launcher] {} did not end within {:.3g} s{}; check that every rank was "
                                 "started and can reach the others",
                                 operation, to_seconds(limit), watch.missing())});
  office.log().error("{}", error.message);
  watch.tell(error);
  std::_Exit(exit_code(error.kind));
}

bool is_alone(const transport::LaunchEnvironment& place) {
  return place.launcher == transport::Launcher::kNone || place.size == 1;
}

/// Sets a variable of an MPI library unless the user has.
void tell_mpi(const char* name, const std::string& value) { ::setenv(name, value.c_str(), /*overwrite=*/0); }

/// What brings the weights into memory while MPI starts; null where this host needs a part of them only, or may. Of
/// what the system has free, half is left for the weights as they are packed.
std::unique_ptr<checkpoint::ReadAhead> start_reading_ahead(const std::filesystem::path& model,
                                                           const transport::LaunchEnvironment& place) {
  const bool is_one_host = place.size && place.local_size == place.size && place.local_rank;
  if (model.empty() || !is_one_host) return nullptr;
  const checkpoint::ReadAhead::Share share{.index = *place.local_rank, .of = *place.local_size};
  return std::make_unique<checkpoint::ReadAhead>(model, share, Bytes(probe::available_memory().value / 2));
}

/// What MPI reads from the environment when it starts. The other library's variables do no harm.
void prepare_mpi(const RunOptions& options, const transport::LaunchEnvironment& place) {
  // A process that no mpirun of its own MPI started must not try to start daemons: check_world tells it apart.
  tell_mpi("OMPI_MCA_ess_singleton_isolated", "1");
  // Waiting ranks hand over cores that they share; mpirun knows of that by itself, srun does not.
  const auto cores = static_cast<int>(transport::own_cores().size());
  if (place.local_size.value_or(place.size.value_or(1)) > cores) tell_mpi("OMPI_MCA_mpi_yield_when_idle", "1");
  if (!options.interface) return;
  const std::vector<transport::Interface> interfaces = transport::own_interfaces();
  const auto found = transport::find_interface_towards(interfaces, *options.interface);
  if (!found) return;  // said later, by a rank that knows all hosts
  tell_mpi("OMPI_MCA_btl_tcp_if_include", transport::subnet_of(*found));
  tell_mpi("FI_TCP_IFACE", found->name);  // MPICH on libfabric
}

/// MPI's group, watched and of one program, and how its hosts reach each other. @collective @blocking
Result<std::unique_ptr<transport::Bootstrap>> meet(const transport::LaunchEnvironment& place, const RunOptions& options,
                                                   const transport::WaitOptions& wait, RankLifecycle& office,
                                                   GroupWatch& watch, ControlPlane& plane,
                                                   std::unique_ptr<transport::mpi::World>& world) {
  const auto limit = duration_of(options.start_deadline_s);
  const Watchdog watchdog(limit + (place.rank == 0 ? Duration{} : kWordOfRank0),
                          [&] { give_up(office, watch, "the start (MPI_Init and the first exchanges)", limit); });
  office.phases().enter("launch");
  LOCKSTEP_TRY(const auto library, transport::mpi::choose_library(transport::mpi::library_choice(environment, place)));
  watch.open_early();
  office.phases().enter("bootstrap");
  prepare_mpi(options, place);
  LOCKSTEP_TRY(world, transport::mpi::start(library, wait));
  LOCKSTEP_TRY(auto group, world->make_bootstrap(wait));
  auto bootstrap = std::make_unique<RecordedBootstrap>(std::move(group), office.recorder());
  if (options.meeting == Meeting::kBare) return bootstrap;
  LOCKSTEP_TRY(plane, find_control_plane(options, *bootstrap, office.log()));
  LOCKSTEP_TRY_VOID(watch.open(*bootstrap, plane));
  LOCKSTEP_TRY_VOID(transport::agree(*bootstrap, "the program", statement_of_program()));
  return bootstrap;
}

Result<void> run_process_rank(const RunOptions& options, const transport::LaunchEnvironment& place,
                              const std::vector<Fault>& faults, const checkpoint::ReadAhead* ahead,
                              const RankWork& work) {
  const SteadyClock clock;
  AbortFlag abort;
  RankLifecycle office(place.rank, clock, options, Faults(faults, place.rank));
  GroupWatch watch(options, place, office, abort);
  ControlPlane plane;
  GroupWatch* const others = is_alone(place) ? nullptr : &watch;
  const Interruption interruption([&](int signal) { take_signal(signal, office, abort, others); });
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = duration_of(options.deadline_s)};
  const auto fail = [&](const Error& error) {
    const Error cause = office.settle(watch.cause_of(error));
    watch.tell(cause);
    return cause;
  };

  const auto run = [&]() -> Result<void> {
    std::unique_ptr<transport::mpi::World> world;  // null where this rank is alone
    std::unique_ptr<transport::Bootstrap> bootstrap;
    if (is_alone(place)) {
      office.phases().enter("bootstrap");
      bootstrap = transport::make_single_bootstrap();
    } else {
      LOCKSTEP_TRY(bootstrap, meet(place, options, wait, office, watch, plane, world));
    }
    LOCKSTEP_TRY_VOID(
        work({.run = options,
              .bootstrap = *bootstrap,
              .mpi = world.get(),
              .launch = place,
              .control_plane = plane,
              .read_ahead = ahead,
              .abort = abort,
              .clock = clock,
              .log = office.log(),
              .phases = office.phases(),
              .recorder = office.recorder(),
              .on_failure = fail,
              .on_stuck =
                  [&](const Error& error) {
                    const Error cause = fail(error);
                    office.log().error("{}", cause.message);
                    std::_Exit(exit_code(cause.kind));
                  },
              .on_step = [&](RankId, const actors::ExecutorStatus& status) { office.begin_step(status); },
              .faults = office.faults()},
             office.monitor()));
    office.phases().enter("finish");
    const Watchdog watchdog(kLeaveDeadline, [&] { give_up(office, watch, "MPI_Finalize", kLeaveDeadline); });
    LOCKSTEP_TRY_VOID(bootstrap->finish());
    if (world) LOCKSTEP_TRY_VOID(world->finish(wait));
    watch.leave(kLeaveDeadline);
    return ok();
  };
  const Result<void> result = guarded(run);  // a bug of ours leaves its exit record too
  if (!result.has_value()) return fail(result.error());
  return office.settle_well();
}

Result<void> run_thread_ranks(const RunOptions& options, int size, const std::vector<Fault>& faults,
                              const checkpoint::ReadAhead* ahead, const RankWork& work) {
  const SteadyClock clock;
  AbortFlag abort;  // one for all ranks: they share a fate
  std::vector<std::unique_ptr<RankLifecycle>> offices;
  for (int rank = 0; rank < size; ++rank) {
    offices.push_back(std::make_unique<RankLifecycle>(rank, clock, options, Faults(faults, rank)));
  }
  const Interruption interruption([&](int signal) {
    for (const auto& office : offices) {
      if (signal == SIGUSR1 || office == offices.front()) take_signal(signal, *office, abort, nullptr);
    }
  });
  const auto limit = duration_of(options.deadline_s);
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = limit};

  SharedRanks shared{.group = transport::loopback::make_group(size), .session = nullptr};
  std::vector<std::optional<Error>> errors(static_cast<size_t>(size));
  const auto run = [&](int rank) {
    RankLifecycle& office = *offices[static_cast<size_t>(rank)];
    RecordedBootstrap bootstrap(transport::loopback::make_bootstrap(shared.group, rank, wait), office.recorder());
    const Result<void> result = guarded([&] {
      return work({.run = options,
                   .bootstrap = bootstrap,
                   .shared = &shared,
                   .read_ahead = ahead,
                   .abort = abort,
                   .clock = clock,
                   .log = office.log(),
                   .phases = office.phases(),
                   .recorder = office.recorder(),
                   .on_failure = [&](const Error& error) { office.settle(error); },
                   .on_step =
                       [&](RankId of, const actors::ExecutorStatus& status) {
                         offices[static_cast<size_t>(of.value)]->begin_step(status);
                       },
                   .faults = office.faults()},
                  office.monitor());
    });
    if (!result.has_value()) abort.raise(office.settle(result.error()));
    if (const auto settled = office.settle_well(); !settled.has_value()) {
      errors[static_cast<size_t>(rank)] = settled.error();
    }
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < size; ++rank) others.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : others) thread.join();
  for (const auto& error : errors) {
    if (error) return *error;
  }
  return ok();
}

/// Both folders get a rank-R.json.
Result<void> check_folders(const RunOptions& run) {
  if (!run.flight_recorder) return ok();
  LOCKSTEP_TRY_VOID(check_writable(*run.flight_recorder / "rank-0.json", "--flight-recorder"));
  std::error_code ignored;
  if (!run.exit_record || !std::filesystem::equivalent(*run.exit_record, *run.flight_recorder, ignored)) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] --flight-recorder: found {}, the folder of --exit-record, expected another one: "
                           "both write rank-R.json",
                           run.flight_recorder->string())};
}

}  // namespace

Result<void> run_ranks(const RunOptions& run, std::optional<int> tp, const std::filesystem::path& model,
                       const RankWork& work) {
  std::vector<Fault> faults;
  for (const std::string& text : run.faults) {
    LOCKSTEP_TRY(faults.emplace_back(), parse_fault(text));
  }
  LOCKSTEP_TRY_VOID(check_folders(run));
  transport::LaunchEnvironment place;  // of ranks that are threads: one process, alone
  if (run.launch == Launch::kMpi) {
    LOCKSTEP_TRY(place, transport::read_launch_environment(environment));
  }
  const auto ahead = start_reading_ahead(model, place);
  if (run.launch == Launch::kThreads) return run_thread_ranks(run, tp.value_or(1), faults, ahead.get(), work);
  return run_process_rank(run, place, faults, ahead.get(), work);
}

}  // namespace lockstep::launcher
