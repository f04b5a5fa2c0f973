// The search for the process's MPI library. The first match is used:
//
//   1. the file or folder named by the user
//   2. a library that the process has loaded: by the program around this library, or by mpi4py
//   3. by the launcher, its own family first: beside the launcher (its ../lib, as in wheels of PyPI and of vendors),
//   then
//      in the system's library folders
//
//   name                family      used by
//   libmpi.so.40        Open MPI    Open MPI 3, 4 and 5
//   libmpich.so.12      MPICH       Debian's MPICH
//   libmpi.so.12        MPICH       MPICH itself, Intel MPI, MVAPICH
//   libmpi_cray.so.12   MPICH       Cray MPICH
//
// `choose_library` of mpi.h is here.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "transport/mpi/library_file.h"
#include "transport/mpi/mpi.h"

namespace lockstep::transport::mpi {

/// A candidate.
struct Candidate {
  Family family = Family::kOpenMpi;
  LibraryFile file;

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// The order of the third rule; `folders` are those beside the launcher. Pure.
std::vector<Candidate> candidates_for(const LaunchEnvironment& launch,
                                      const std::vector<std::filesystem::path>& folders);

/// The folders of libraries beside the launcher that started this process, if one of the processes above it is one.
std::vector<std::filesystem::path> launcher_folders();

/// The library with which this process has initialised and not finalised MPI. Fails with `kFailedPrecondition` when
/// there is none.
Result<OpenLibrary> find_initialized_library();

}  // namespace lockstep::transport::mpi
