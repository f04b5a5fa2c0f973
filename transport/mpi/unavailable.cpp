// MPI in a build without it: every function fails and names the CMake option.
#include "transport/mpi/mpi.h"

namespace lockstep::transport::mpi {
namespace {

Error left_out() {
  return {
      ErrorKind::kUnavailable,
      "[transport/mpi] MPI is not in this build: found LOCKSTEP_WITH_MPI off or no mpi.h, expected an adapter of Open "
      "MPI or MPICH; configure with -DLOCKSTEP_WITH_MPI=ON where libopenmpi-dev or libmpich-dev is installed, or use "
      "--launch threads"};
}

}  // namespace

LibraryChoice library_choice(const EnvironmentLookup&, const LaunchEnvironment& launch) { return {.launch = launch}; }

Result<ChosenLibrary> choose_library(const LibraryChoice&) { return left_out(); }

Result<std::unique_ptr<World>> start(const ChosenLibrary&, const WaitOptions&) { return left_out(); }

Result<std::unique_ptr<World>> adopt(int, const WaitOptions&) { return left_out(); }

}  // namespace lockstep::transport::mpi
