// One MPI library: what it is, and how it is opened. The only place that asks the system's loader.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "transport/mpi/library.h"

namespace lockstep::transport::mpi {

/// A library that is loaded, with the adapter of its family.
struct OpenLibrary {
  std::unique_ptr<Library> library;
  std::string name;  // "Open MPI 4.1.4"
};

/// A file that holds an MPI: a path, a name for the system's search, or empty for the program itself.
using LibraryFile = std::string;

/// Whether this build has an adapter of the family: it found an mpi.h of it.
bool has_adapter(Family family);

/// By what `Library::version` says; nothing for an MPI of neither family. Pure.
std::optional<Family> family_of(std::string_view version);

/// Whether the file is in the process already.
bool is_present(const LibraryFile& file);

/// Why the file cannot be loaded, in the loader's words; nothing when it is loaded now, for good.
std::optional<std::string> load(const LibraryFile& file);

/// A file that was loaded. Fails with `kFailedPrecondition` when it is no MPI, one of neither family, or one of a
/// family without an adapter.
Result<OpenLibrary> open_library(const LibraryFile& file);

}  // namespace lockstep::transport::mpi
