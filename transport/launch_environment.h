// What the launcher that started this process says about it, read from environment variables without touching MPI.
//
// It answers one question before MPI does: how many ranks should there be? An `mpirun` of another MPI than the one that
// the program is linked to starts N processes that each believe to be alone ("N singletons"); the count here tells.
//
//   Open MPI mpirun          OMPI_COMM_WORLD_SIZE, _RANK, _LOCAL_RANK, _LOCAL_SIZE; PMIX_NAMESPACE, PMIX_SERVER_URI2
//   MPICH, Intel mpiexec     PMI_SIZE, PMI_RANK, MPI_LOCALRANKID
//   srun step                SLURM_STEP_ID with SLURM_STEP_NUM_TASKS (or SLURM_NTASKS), SLURM_PROCID, SLURM_LOCALID;
//                            SLURM_JOB_ID
//   another PMIx launcher    PMIX_RANK; the size is not told
//
// The first that is there counts: mpirun inside a Slurm job inherits the job's variables. A batch script or an salloc
// shell is not a step, so its SLURM_NTASKS says nothing about this process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::transport {

enum class Launcher { kNone, kOpenMpi, kPmi, kSlurm, kPmix };

/// "none", "Open MPI mpirun", …
std::string_view to_string(Launcher launcher);

/// This process according to its launcher.
struct LaunchEnvironment {
  Launcher launcher = Launcher::kNone;
  std::optional<int> size = 1;  // empty: not told
  int rank = 0;
  std::optional<int> local_rank = 0;  // among the ranks of the host; empty: not told
  std::optional<int> local_size;      // ranks of the host; empty: not told
  std::string job;                    // what no other job of the host has at the same time; empty: not told

  friend bool operator==(const LaunchEnvironment&, const LaunchEnvironment&) = default;
};

/// The value of an environment variable; empty when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

/// Pure. Fails with `kFailedPrecondition` when a variable that counts is not a number, naming it.
Result<LaunchEnvironment> read_launch_environment(const EnvironmentLookup& lookup);

/// Fails with `kFailedPrecondition` when MPI sees another group than the launcher started: N singletons.
Result<void> check_world(const LaunchEnvironment& expected, int mpi_rank, int mpi_size);

}  // namespace lockstep::transport
