#include "runtime/backends/neuron/nrt/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "runtime/backends/neuron/nrt/status.h"

namespace lockstep::nrt {
namespace {

Error unavailable(std::string message) {
  return {ErrorKind::kUnavailable, "[runtime/backends/neuron] " + std::move(message)};
}

void* open_library(const std::filesystem::path& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }

Error not_found(const std::filesystem::path& path, const std::string& why) {
  return unavailable(
      fmt::format("cannot load the Neuron runtime: found {}, expected {} to be a library; on a Neuron instance install "
                  "aws-neuronx-runtime-lib and aws-neuronx-collectives from AWS's package repository "
                  "(awsdocs-neuron.readthedocs-hosted.com says how), or name the library with --neuron-runtime; where "
                  "there is no device, lockstep compile prepares a run and --backend cpu runs one",
                  why, path.string()));
}

}  // namespace

Result<std::unique_ptr<Library>> Library::open(const std::filesystem::path& path) {
  void* handle = open_library(path);
  if (handle == nullptr) {
    const std::string why = dlerror();
    if (!path.has_parent_path()) handle = open_library(std::filesystem::path(kInstallFolder) / path);
    if (handle == nullptr) return not_found(path, why);
  }
  std::unique_ptr<Library> library(new Library);
  library->path_ = path;
  LOCKSTEP_TRY_VOID(library->find_functions(handle));
  LOCKSTEP_TRY_VOID(library->check_version());
  return library;
}

Result<void> Library::find_functions(void* handle) {
  std::vector<std::string> missing;
  const auto find = [&](const char* name, auto& pointer) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(dlsym(handle, name));
    return pointer != nullptr;
  };
#define LOCKSTEP_NRT_FIND(name) \
  if (!find("nrt_" #name, functions_.name)) missing.push_back("nrt_" #name);
  LOCKSTEP_NRT_REQUIRED_FUNCTIONS(LOCKSTEP_NRT_FIND)
#undef LOCKSTEP_NRT_FIND
#define LOCKSTEP_NRT_FIND(name) find("nrt_" #name, functions_.name);
  LOCKSTEP_NRT_OPTIONAL_FUNCTIONS(LOCKSTEP_NRT_FIND)
#undef LOCKSTEP_NRT_FIND
  if (missing.empty()) return ok();
  return unavailable(fmt::format(
      "cannot use {}: found no {}, expected a Neuron runtime of version {}; install aws-neuronx-runtime-lib "
      "of a current SDK release",
      path_.string(), fmt::join(missing, ", "), kMajorVersion));
}

Result<void> Library::check_version() {
  nrt_version_t version{};
  LOCKSTEP_TRY_VOID(check(functions_.get_version(&version, sizeof version), "ask the runtime for its version"));
  version_ = fmt::format("{}.{}.{}.{}", version.rt_major, version.rt_minor, version.rt_patch, version.rt_maintenance);
  if (version.rt_major == kMajorVersion) return ok();
  return unavailable(fmt::format(
      "cannot use {}: found version {} of the Neuron runtime, expected {}.x; install aws-neuronx-runtime-lib of an SDK "
      "release that has it",
      path_.string(), version_, kMajorVersion));
}

}  // namespace lockstep::nrt
