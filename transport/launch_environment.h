// The launcher's description of this process, read from environment variables without MPI calls.
//
// It gives the number of ranks before MPI does. An `mpirun` of another MPI than the loaded one starts N processes that
// each see a group of one ("N singletons"); the launcher's count detects this.
//
//   Group::processes         LOCKSTEP_RANKS, _RANK, _JOB, _MEETING: a descriptor, see transport/local
//   Open MPI mpirun          OMPI_COMM_WORLD_SIZE, _RANK, _LOCAL_RANK, _LOCAL_SIZE; PMIX_NAMESPACE, PMIX_SERVER_URI2
//   MPICH, Intel mpiexec     PMI_SIZE, PMI_RANK, MPI_LOCALRANKID
//   srun step                SLURM_STEP_ID with SLURM_STEP_NUM_TASKS (or SLURM_NTASKS), SLURM_PROCID, SLURM_LOCALID;
//                            SLURM_JOB_ID
//   another PMIx launcher    PMIX_RANK; the size is unknown
//
// It also shows which MPI library fits the launcher. Each launcher offers PMI or PMIx, and each library supports one:
//
//   launcher            offers   Open MPI    MPICH
//   Open MPI mpirun     PMIx     yes         N singletons
//   MPICH mpiexec       PMI      singletons  yes
//   srun --mpi=pmix     PMIx     yes         N singletons
//   srun --mpi=pmi2     PMI      aborts      yes
//   srun --mpi=none     neither  aborts      N singletons
//
// The first match in this order counts, because mpirun inside a Slurm job inherits the job's variables. A batch script
// or an salloc shell is not a step, so its SLURM_NTASKS does not describe this process.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::transport {

enum class Launcher { kNone, kLockstep, kOpenMpi, kPmi, kSlurm, kPmix };

/// "none", "Open MPI mpirun", …
std::string_view to_string(Launcher launcher);

/// This process according to its launcher.
struct LaunchEnvironment {
  Launcher launcher = Launcher::kNone;
  std::optional<int> size = 1;  // empty: unknown
  int rank = 0;
  std::optional<int> local_rank = 0;  // among the ranks of the host; empty: unknown
  std::optional<int> local_size = 1;  // ranks of the host; empty: unknown
  std::string job;                    // an id unique among the host's running jobs; empty: unknown
  bool speaks_pmix = false;           // whether the launcher offers PMIx
  bool speaks_pmi = false;
  bool in_slurm_step = false;
  std::optional<int> meeting;    // the inherited descriptor through which ranks of kLockstep meet
  std::optional<int> job_cores;  // of this host that belong to the job (SLURM_CPUS_ON_NODE); empty: unknown

  friend bool operator==(const LaunchEnvironment&, const LaunchEnvironment&) = default;
};

/// The value of an environment variable; empty when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

/// Pure. Fails with `kFailedPrecondition`, naming the variable, when a number cannot be parsed, or a rank is not below
/// the number of ranks.
Result<LaunchEnvironment> read_launch_environment(const EnvironmentLookup& lookup);

/// The variables that give a rank of kLockstep its `environment`: what `read_launch_environment` reads.
std::map<std::string, std::string> launch_variables(const LaunchEnvironment& environment);

/// Before MPI is started: fails with `kFailedPrecondition` when the launcher and the MPI `library` ("Open MPI 4.1.4",
/// "MPICH 4.0.2") do not fit and the library would end the process without a useful message.
Result<void> check_launcher(const LaunchEnvironment& environment, std::string_view library);

/// Fails with `kFailedPrecondition` when MPI sees another group than the launcher started: N singletons. Names the
/// launcher, the library and the command that fits.
Result<void> check_world(const LaunchEnvironment& expected, int mpi_rank, int mpi_size, std::string_view library);

}  // namespace lockstep::transport
