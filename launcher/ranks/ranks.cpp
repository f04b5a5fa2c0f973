#include "launcher/ranks/ranks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <thread>

#include "launcher/ranks/exit_record.h"
#include "launcher/ranks/guard.h"
#include "launcher/ranks/interruption.h"
#include "launcher/ranks/watchdog.h"
#include "transport/launch_environment.h"
#include "transport/mpi/mpi.h"
#include "transport/network.h"

namespace lockstep::launcher {
namespace {

constexpr auto kLeaveDeadline = std::chrono::seconds(5);  // of MPI_Finalize

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

double unix_time() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// One rank's reporting: its log, its phases, what it is doing, its exit record.
class RankOffice {
 public:
  RankOffice(int rank, const Clock& clock, const std::optional<std::filesystem::path>& records)
      : rank_(rank), records_(records), log_(rank, rank == 0 ? LogLevel::kInfo : LogLevel::kWarning), phases_(clock) {}

  const Log& log() const { return log_; }
  Phases& phases() { return phases_; }
  RankMonitor& monitor() { return monitor_; }

  /// Writes the exit record; the first call counts. Thread-safe.
  void record(const std::optional<Error>& error) {
    if (recorded_.exchange(true) || !records_) return;
    ExitRecord record{.code = error ? exit_code(error->kind) : 0, .rank = rank_, .unix_time = unix_time()};
    record.phase = phases_.name();
    if (const auto status = monitor_.status()) {
      record.phase = status->phase;
      record.operation = status->operation.operation;
      record.sequence = status->operation.sequence;
    }
    if (error) {
      record.message = error->message;
      if (error->kind == ErrorKind::kPeerLost) record.lost_rank = error->origin_rank;
    }
    if (const auto written = write_exit_record(*records_, record); !written.has_value()) {
      log_.error("{}", written.error().message);
    }
  }

 private:
  int rank_;
  const std::optional<std::filesystem::path>& records_;
  Log log_;
  Phases phases_;
  RankMonitor monitor_;
  std::atomic<bool> recorded_ = false;
};

Error interrupted() { return {ErrorKind::kCancelled, "[launcher] interrupted; start again to run the job"}; }

/// What Ctrl-C does: the session ends on every rank; before there is one, the abort flags end every wait.
void interrupt(RankOffice& office, AbortFlag& abort) {
  if (!office.monitor().cancel()) abort.raise(interrupted());
}

/// Ends the process where a library call does not return.
[[noreturn]] void give_up(RankOffice& office, const char* operation, Duration limit) {
  const Error error{ErrorKind::kDeadlineExceeded,
                    fmt::format("[launcher] {} did not return within {:.0f} s; check that "
                                "every rank was started and can reach the others",
                                operation, to_seconds(limit))};
  office.log().error("{}", error.message);
  office.record(error);
  std::_Exit(exit_code(error.kind));
}

/// Sets a variable of an MPI library unless the user has.
void tell_mpi(const char* name, const std::string& value) { ::setenv(name, value.c_str(), /*overwrite=*/0); }

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

Result<void> run_process_rank(const RunOptions& options, const transport::LaunchEnvironment& place,
                              const RankWork& work) {
  const SteadyClock clock;
  AbortFlag abort;
  RankOffice office(place.rank, clock, options.exit_record);
  const Interruption interruption([&](int) { interrupt(office, abort); });
  const auto limit = duration_of(options.deadline_s);
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = limit};

  const auto run = [&]() -> Result<void> {
    std::unique_ptr<transport::Bootstrap> bootstrap;
    office.phases().enter("bootstrap");
    if (place.launcher == transport::Launcher::kNone || place.size == 1) {
      bootstrap = transport::make_single_bootstrap();
    } else {
      const std::string library = transport::mpi::library_name();
      LOCKSTEP_TRY_VOID(transport::check_launcher(place, library));
      prepare_mpi(options, place);
      const Watchdog watchdog(limit, [&] { give_up(office, "MPI_Init", limit); });
      LOCKSTEP_TRY(bootstrap, transport::mpi::make_bootstrap(wait));
      LOCKSTEP_TRY_VOID(transport::check_world(place, bootstrap->rank(), bootstrap->size(), library));
    }
    LOCKSTEP_TRY_VOID(work({.run = options,
                            .bootstrap = *bootstrap,
                            .launcher = place.launcher,
                            .abort = abort,
                            .clock = clock,
                            .log = office.log(),
                            .phases = office.phases(),
                            .on_failure = [&](const Error& error) { office.record(error); }},
                           office.monitor()));
    const Watchdog watchdog(kLeaveDeadline, [&] { give_up(office, "MPI_Finalize", kLeaveDeadline); });
    return bootstrap->finish();
  };
  const Result<void> result = guarded(run);  // a bug of ours leaves its exit record too
  office.record(result.has_value() ? std::nullopt : std::optional(result.error()));
  return result;
}

Result<void> run_thread_ranks(const RunOptions& options, int size, const RankWork& work) {
  const SteadyClock clock;
  AbortFlag abort;  // one for all ranks: they share a fate
  std::vector<std::unique_ptr<RankOffice>> offices;
  for (int rank = 0; rank < size; ++rank) {
    offices.push_back(std::make_unique<RankOffice>(rank, clock, options.exit_record));
  }
  const Interruption interruption([&](int) { interrupt(*offices.front(), abort); });
  const auto limit = duration_of(options.deadline_s);
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = limit};

  SharedRanks shared{.group = transport::loopback::make_group(size), .session = nullptr};
  std::vector<std::optional<Error>> errors(static_cast<size_t>(size));
  const auto run = [&](int rank) {
    RankOffice& office = *offices[static_cast<size_t>(rank)];
    const auto bootstrap = transport::loopback::make_bootstrap(shared.group, rank, wait);
    const Result<void> result = guarded([&] {
      return work({.run = options,
                   .bootstrap = *bootstrap,
                   .shared = &shared,
                   .abort = abort,
                   .clock = clock,
                   .log = office.log(),
                   .phases = office.phases(),
                   .on_failure = [&](const Error& error) { office.record(error); }},
                  office.monitor());
    });
    if (!result.has_value()) {
      errors[static_cast<size_t>(rank)] = result.error();
      abort.raise(result.error());
    }
    office.record(errors[static_cast<size_t>(rank)]);
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

}  // namespace

Result<void> run_ranks(const RunOptions& run, std::optional<int> tp, const RankWork& work) {
  if (run.launch == Launch::kThreads) return run_thread_ranks(run, tp.value_or(1), work);
  LOCKSTEP_TRY(const transport::LaunchEnvironment place, transport::read_launch_environment(environment));
  return run_process_rank(run, place, work);
}

}  // namespace lockstep::launcher
