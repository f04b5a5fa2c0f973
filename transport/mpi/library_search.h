// Which MPI library a process uses, and how it is loaded. The first that there is:
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
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/mpi/library.h"
#include "transport/mpi/mpi.h"

namespace lockstep::transport::mpi {

/// A library that may be there: a name for the system's search, or a path.
struct Candidate {
  Family family = Family::kOpenMpi;
  std::string file;

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// A library that was loaded, and what to know of the choice when it does not fit the launcher.
struct FoundLibrary {
  std::unique_ptr<Library> library;
  std::string name;  // "Open MPI 4.1.4"
  std::string note;  // "MPICH was not loaded: libmpich.so.12: …"; empty: nothing was preferred to it
};

/// The order of the third rule; `folders` are those beside the launcher. Pure.
std::vector<Candidate> candidates_for(const LaunchEnvironment& launch,
                                      const std::vector<std::filesystem::path>& folders);

/// By what `Library::version` says; nothing for an MPI of neither family. Pure.
std::optional<Family> family_of(std::string_view version);

/// The folders of libraries beside the launcher that started this process, if one of the processes above it is one.
std::vector<std::filesystem::path> launcher_folders();

/// Fails with `kFailedPrecondition` when there is no library, or none that this build has an adapter for.
Result<FoundLibrary> find_library(const LibraryChoice& choice);

/// The library with which this process has initialised MPI. Fails with `kFailedPrecondition` when there is none.
Result<FoundLibrary> find_initialized_library();

}  // namespace lockstep::transport::mpi
