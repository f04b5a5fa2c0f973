#include "transport/mpi/library_file.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "transport/mpi/adapter.h"

namespace lockstep::transport::mpi {
namespace {

/// The adapter of a family; null where the build found no mpi.h of it.
using MakeAdapter = Result<std::unique_ptr<Library>> (*)(void* handle);
MakeAdapter adapter_of([[maybe_unused]] Family family) {
#ifdef LOCKSTEP_WITH_OPEN_MPI
  if (family == Family::kOpenMpi) return make_open_mpi_adapter;
#endif
#ifdef LOCKSTEP_WITH_MPICH
  if (family == Family::kMpich) return make_mpich_adapter;
#endif
  return nullptr;
}

Error cannot_use(std::string_view found, std::string_view expected, std::string_view advice) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[transport/mpi] cannot use an MPI library: found {}, expected {}; {}", found, expected, advice)};
}

Error no_adapter(std::string_view found, Family family) {
  const bool is_mpich = family == Family::kMpich;
  return cannot_use(
      fmt::format("{}, and a build without an adapter of {}", found, to_string(family)),
      fmt::format("a build that found the mpi.h of {}", to_string(family)),
      fmt::format("install {} and build again, or start with {}", is_mpich ? "libmpich-dev" : "libopenmpi-dev",
                  is_mpich ? "Open MPI's mpirun" : "MPICH's mpirun"));
}

void* open_file(const LibraryFile& file, int flags) {
  if (file.empty()) return RTLD_DEFAULT;
  return dlopen(file.c_str(), RTLD_NOW | flags);
}

}  // namespace

bool has_adapter(Family family) { return adapter_of(family) != nullptr; }

std::optional<Family> family_of(std::string_view version) {
  if (version.find("Open MPI") != std::string_view::npos) return Family::kOpenMpi;
  for (const std::string_view name : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
    if (version.find(name) != std::string_view::npos) return Family::kMpich;
  }
  return std::nullopt;
}

bool is_present(const LibraryFile& file) {
  if (file.empty()) return dlsym(RTLD_DEFAULT, "MPI_Get_library_version") != nullptr;
  return open_file(file, RTLD_NOLOAD) != nullptr;
}

std::optional<std::string> load(const LibraryFile& file) {
  if (file.empty() || open_file(file, RTLD_LOCAL) != nullptr) return std::nullopt;
  return dlerror();
}

Result<OpenLibrary> open_library(const LibraryFile& file) {
  void* const handle = open_file(file, RTLD_NOLOAD);
  using GetVersion = int (*)(char*, int*);
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(handle, "MPI_Get_library_version"));
  if (get_version == nullptr) return cannot_use(file, "a library with MPI_Get_library_version", "name another library");
  std::string version(size_t{1} << 14, '\0');  // twice MPICH's limit
  int length = 0;
  get_version(version.data(), &length);
  version.resize(static_cast<size_t>(length));

  OpenLibrary opened{.library = nullptr, .name = name_of(version)};
  const std::string found = file.empty() ? opened.name : fmt::format("{} ({})", opened.name, file);
  const std::optional<Family> family = family_of(version);
  if (!family) return cannot_use(found, "Open MPI or an MPI of the MPICH ABI", "name another library");
  const MakeAdapter make_adapter = adapter_of(*family);
  if (make_adapter == nullptr) return no_adapter(found, *family);
  // Plugins that Open MPI opens later resolve its symbols in the process's global scope.
  if (*family == Family::kOpenMpi) open_file(file, RTLD_NOLOAD | RTLD_GLOBAL);
  LOCKSTEP_TRY(opened.library, make_adapter(handle));
  return opened;
}

}  // namespace lockstep::transport::mpi
