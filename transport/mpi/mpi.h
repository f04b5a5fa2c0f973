// MPI as bootstrap and as communicator: whatever network the cluster's MPI knows. It moves bytes; the sums are ours, so
// they have the same bits as everywhere else. Operations are non-blocking with a test loop. One thread owns MPI
// (FUNNELED): the one that made the bootstrap.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/bootstrap.h"
#include "transport/parts.h"

namespace lockstep::transport::mpi {

/// "Open MPI 4.1.4", "MPICH 4.0.2": the library that the program runs with. May be called before MPI is started.
std::string library_name();

/// Initialises MPI (once per process). `finish()` finalises it; the destructor without `finish` leaves MPI as it is,
/// since MPI_Finalize waits for peers.
/// @collective @blocking
Result<std::unique_ptr<Bootstrap>> make_bootstrap(const WaitOptions& wait);

/// A communicator over its own duplicate of MPI_COMM_WORLD. `bootstrap` must come from `make_bootstrap` above.
/// With `members`, between those ranks only, numbered in that order (this rank is one of them): every rank of the world
/// calls it, and ranks that name each other name the same members. Errors call ranks by their numbers in the world.
/// @collective @blocking
Result<std::unique_ptr<PartCommunicator>> make_communicator(Bootstrap& bootstrap, const WaitOptions& wait,
                                                            std::vector<int> members = {});

}  // namespace lockstep::transport::mpi
