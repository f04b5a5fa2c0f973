// Which MPI library a process uses. The first that there is:
//
//   1. the file or folder that the user names
//   2. a library that is in the process already: of the program around this library, or of mpi4py
//   3. by the launcher, the family that it speaks to first: beside the launcher (its ../lib, where wheels of PyPI and
//      vendors keep it), then where the system looks for libraries
//
//   name                family      who has it
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

/// A library that may be there.
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

/// The library with which this process has initialised MPI, and not finalised it. Fails with `kFailedPrecondition` when
/// there is none.
Result<OpenLibrary> find_initialized_library();

}  // namespace lockstep::transport::mpi
