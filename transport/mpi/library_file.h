// MPI library files: identification and loading. The only user of the system's loader.
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

/// A file with an MPI library: a path, a name for the system's search, or empty for the program itself.
using LibraryFile = std::string;

/// Whether this build has an adapter of the family, because it found the family's mpi.h.
bool has_adapter(Family family);

/// The family by `Library::version`; empty for an MPI of neither family. Pure.
std::optional<Family> family_of(std::string_view version);

/// Whether the process has loaded the file.
bool is_present(const LibraryFile& file);

/// Loads the file permanently. Returns the loader's message on failure, nothing on success.
std::optional<std::string> load(const LibraryFile& file);

/// A loaded file. Fails with `kFailedPrecondition` if it is not an MPI, an MPI of neither family, or an MPI of a family
/// without an adapter.
Result<OpenLibrary> open_library(const LibraryFile& file);

}  // namespace lockstep::transport::mpi
