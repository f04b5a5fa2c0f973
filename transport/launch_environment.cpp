#include "transport/launch_environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>

namespace lockstep::transport {
namespace {

constexpr int64_t kFirstSpecialStep = 0xfffffff0;  // Slurm's batch, extern and interactive "steps" lie above

constexpr int64_t kMostCount = std::numeric_limits<int>::max();

Result<std::optional<int64_t>> read_number(const EnvironmentLookup& lookup, std::string_view name,
                                           int64_t most = kMostCount) {
  const std::optional<std::string> text = name.empty() ? std::nullopt : lookup(name);
  if (!text) return std::optional<int64_t>();
  int64_t value = -1;
  const char* const end = text->data() + text->size();
  const auto [stop, status] = std::from_chars(text->data(), end, value);
  if (status != std::errc() || stop != end || value < 0 || value > most) {
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[transport] cannot read the launcher's variable {}: found '{}', expected a count; start "
                             "through mpirun or srun, or unset it",
                             name, *text)};
  }
  return std::optional<int64_t>(value);
}

// Of a rank that Group::processes has started.
constexpr const char* kRanks = "LOCKSTEP_RANKS";
constexpr const char* kRank = "LOCKSTEP_RANK";
constexpr const char* kJob = "LOCKSTEP_JOB";
constexpr const char* kMeeting = "LOCKSTEP_MEETING";

struct Names {
  Launcher launcher;
  std::string_view size;
  std::string_view rank;
  std::string_view local_rank;
  std::string_view local_size;
  std::string_view job, job_server;  // both make the job's name
};

std::string job_of(const EnvironmentLookup& lookup, const Names& names) {
  if (names.job.empty()) return "";
  const std::optional<std::string> job = lookup(names.job), server = lookup(names.job_server);
  return job && server ? *job + " " + *server : "";
}

std::optional<int> narrow(std::optional<int64_t> value) {
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

Result<void> check_below(std::string_view rank_name, int64_t rank, std::string_view size_name, int64_t size) {
  if (rank < size) return ok();
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[transport] cannot use the launcher's variables {} and {}: found rank {} of {}, expected a "
                           "rank below their number; start through mpirun or srun, or unset them",
                           rank_name, size_name, rank, size)};
}

/// Empty without the launcher's variables.
Result<std::optional<LaunchEnvironment>> read(const EnvironmentLookup& lookup, const Names& names) {
  LOCKSTEP_TRY(const std::optional<int64_t> size, read_number(lookup, names.size));
  LOCKSTEP_TRY(const std::optional<int64_t> rank, read_number(lookup, names.rank));
  if (!size || !rank) return std::optional<LaunchEnvironment>();
  LOCKSTEP_TRY(const std::optional<int64_t> local_rank, read_number(lookup, names.local_rank));
  LOCKSTEP_TRY(const std::optional<int64_t> local_size, read_number(lookup, names.local_size));
  LOCKSTEP_TRY_VOID(check_below(names.rank, *rank, names.size, *size));
  if (local_size) {
    LOCKSTEP_TRY_VOID(check_below(names.local_rank, local_rank.value_or(0), names.local_size, *local_size));
  }
  return std::optional(LaunchEnvironment{.launcher = names.launcher,
                                         .size = static_cast<int>(*size),
                                         .rank = static_cast<int>(*rank),
                                         .local_rank = narrow(local_rank),
                                         .local_size = narrow(local_size),
                                         .job = job_of(lookup, names)});
}

Result<bool> is_slurm_step(const EnvironmentLookup& lookup) {
  LOCKSTEP_TRY(const std::optional<int64_t> step,
               read_number(lookup, "SLURM_STEP_ID", std::numeric_limits<uint32_t>::max()));
  return step && *step < kFirstSpecialStep;
}

}  // namespace

std::string_view to_string(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone: return "none";
    case Launcher::kLockstep: return "lockstep";
    case Launcher::kOpenMpi: return "Open MPI's mpirun";
    case Launcher::kPmi: return "MPICH's mpiexec (PMI)";
    case Launcher::kSlurm: return "srun";
    case Launcher::kPmix: return "a PMIx launcher";
  }
  return "unknown";
}

namespace {

/// A rank that Group::processes has started. Empty without its variables.
Result<std::optional<LaunchEnvironment>> read_own_launcher(const EnvironmentLookup& lookup) {
  LOCKSTEP_TRY(auto found, read(lookup, {.launcher = Launcher::kLockstep,
                                         .size = kRanks,
                                         .rank = kRank,
                                         .local_rank = kRank,
                                         .local_size = kRanks,
                                         .job = {},
                                         .job_server = {}}));
  if (!found) return found;
  LOCKSTEP_TRY(const auto meeting, read_number(lookup, kMeeting));
  found->meeting = narrow(meeting);
  found->job = lookup(kJob).value_or("");
  return found;
}

Result<LaunchEnvironment> read_launcher(const EnvironmentLookup& lookup) {
  LOCKSTEP_TRY(const auto own, read_own_launcher(lookup));
  if (own) return *own;
  constexpr Names kOpenMpi{.launcher = Launcher::kOpenMpi,
                           .size = "OMPI_COMM_WORLD_SIZE",
                           .rank = "OMPI_COMM_WORLD_RANK",
                           .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                           .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
                           .job = "PMIX_NAMESPACE",
                           .job_server = "PMIX_SERVER_URI2"};
  constexpr Names kPmi{.launcher = Launcher::kPmi,
                       .size = "PMI_SIZE",
                       .rank = "PMI_RANK",
                       .local_rank = "MPI_LOCALRANKID",
                       .local_size = "MPI_LOCALNRANKS",
                       .job = {},
                       .job_server = {}};
  for (const Names& names : {kOpenMpi, kPmi}) {
    LOCKSTEP_TRY(const auto found, read(lookup, names));
    if (found) return *found;
  }
  LOCKSTEP_TRY(const bool in_step, is_slurm_step(lookup));
  const auto slurm = [](std::string_view size) {
    return Names{.launcher = Launcher::kSlurm,
                 .size = size,
                 .rank = "SLURM_PROCID",
                 .local_rank = "SLURM_LOCALID",
                 .local_size = {},
                 .job = "SLURM_JOB_ID",
                 .job_server = "SLURM_STEP_ID"};
  };
  for (const std::string_view size : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
    if (!in_step) break;
    LOCKSTEP_TRY(const auto found, read(lookup, slurm(size)));
    if (found) return *found;
  }
  LOCKSTEP_TRY(const std::optional<int64_t> pmix_rank, read_number(lookup, "PMIX_RANK"));
  if (!pmix_rank) return LaunchEnvironment{};
  return LaunchEnvironment{.launcher = Launcher::kPmix,
                           .size = std::nullopt,
                           .rank = *narrow(pmix_rank),
                           .local_rank = std::nullopt,
                           .local_size = std::nullopt,
                           .job = {}};
}

bool is_open_mpi(std::string_view library) { return library.starts_with("Open MPI"); }
bool is_mpich(std::string_view library) { return library.starts_with("MPICH"); }

/// The right command for a program with this MPI, after `launcher` was used.
std::string fitting_command(Launcher launcher, std::string_view library) {
  if (!is_open_mpi(library) && !is_mpich(library)) return fmt::format("start it with the mpiexec of {}", library);
  const bool open_mpi = is_open_mpi(library);
  if (launcher == Launcher::kSlurm) {
    return open_mpi ? "start it with srun --mpi=pmix, or with mpirun inside the job"
                    : "start it with srun --mpi=pmi2, or with mpirun.mpich inside the job";
  }
  return open_mpi
             ? "start it with Open MPI's mpirun (mpirun.openmpi on Debian; under Slurm: srun --mpi=pmix), or install "
               "MPICH (Debian: libmpich12), whose library is then loaded"
             : "start it with MPICH's mpirun (mpirun.mpich on Debian; under Slurm: srun --mpi=pmi2), or install "
               "Open MPI (Debian: libopenmpi3), whose library is then loaded";
}

Error launched_by_another(const LaunchEnvironment& expected, std::string_view library, std::string_view found) {
  const std::string size = expected.size ? fmt::format(" of {}", *expected.size) : "";
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[transport] rank {}: the launcher does not fit this program's MPI, {}: found {}, expected rank "
                      "{}{} as {} says; {}",
                      expected.rank, library, found, expected.rank, size, to_string(expected.launcher),
                      fitting_command(expected.launcher, library)),
          expected.rank};
}

}  // namespace

Result<LaunchEnvironment> read_launch_environment(const EnvironmentLookup& lookup) {
  LOCKSTEP_TRY(LaunchEnvironment environment, read_launcher(lookup));
  environment.speaks_pmix = lookup("PMIX_RANK").has_value() || lookup("PMIX_NAMESPACE").has_value();
  LOCKSTEP_TRY(environment.in_slurm_step, is_slurm_step(lookup));
  LOCKSTEP_TRY(const std::optional<int64_t> job_cores, read_number(lookup, "SLURM_CPUS_ON_NODE"));
  environment.job_cores = narrow(job_cores);
  environment.speaks_pmi = lookup("PMI_RANK").has_value() || lookup("PMI_FD").has_value();
  return environment;
}

std::map<std::string, std::string> launch_variables(const LaunchEnvironment& environment) {
  return {{kRanks, std::to_string(environment.size.value_or(1))},
          {kRank, std::to_string(environment.rank)},
          {kJob, environment.job},
          {kMeeting, std::to_string(environment.meeting.value_or(-1))}};
}

Result<void> check_launcher(const LaunchEnvironment& environment, std::string_view library) {
  // Open MPI in a Slurm step requires PMIx and ends the process without it; elsewhere it starts as a singleton.
  const bool aborts = is_open_mpi(library) && environment.in_slurm_step && !environment.speaks_pmix &&
                      environment.launcher != Launcher::kOpenMpi;
  if (!aborts || environment.size == 1) return ok();
  return launched_by_another(environment, library, "a Slurm step without PMIx");
}

Result<void> check_world(const LaunchEnvironment& expected, int mpi_rank, int mpi_size, std::string_view library) {
  if (expected.launcher == Launcher::kNone) return ok();  // an unknown launcher may give more ranks
  if (expected.rank == mpi_rank && expected.size.value_or(mpi_size) == mpi_size) return ok();
  return launched_by_another(expected, library, fmt::format("MPI rank {} of {}", mpi_rank, mpi_size));
}

}  // namespace lockstep::transport
