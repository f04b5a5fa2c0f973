// `Library` over a library that dlopen returned: one function for each mpi.h that the build found.
#pragma once

#include <memory>

#include "transport/mpi/library.h"

namespace lockstep::transport::mpi {

/// Over the library behind `handle`, which must be of the function's family and stays loaded. Fails with
/// `kFailedPrecondition` naming the first symbol that it lacks.
Result<std::unique_ptr<Library>> make_open_mpi_adapter(void* handle);
Result<std::unique_ptr<Library>> make_mpich_adapter(void* handle);

}  // namespace lockstep::transport::mpi
