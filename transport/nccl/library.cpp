#include "transport/nccl/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "transport/nccl/nccl_status.h"

namespace lockstep::transport::nccl {
namespace {

std::string text_of(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

Error unavailable(std::string message) { return {ErrorKind::kUnavailable, "[transport/nccl] " + std::move(message)}; }

}  // namespace

Result<std::shared_ptr<const Library>> Library::open(const std::filesystem::path& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return unavailable(fmt::format(
        "cannot load NCCL, which GPUs of several hosts need: found {}, expected {} to be a library; install NCCL {} or "
        "newer on every host, or name the file with --nccl",
        dlerror(), path.string(), text_of(kOldestVersion)));
  }
  std::shared_ptr<Library> library(new Library);
  LOCKSTEP_TRY_VOID(library->find_functions(handle, path));
  LOCKSTEP_TRY_VOID(library->check_version(path));
  return library;
}

Result<void> Library::find_functions(void* handle, const std::filesystem::path& path) {
  std::vector<std::string> missing;
#define LOCKSTEP_NCCL_FIND(name)                                                              \
  functions_.name = reinterpret_cast<decltype(functions_.name)>(dlsym(handle, "nccl" #name)); \
  if (functions_.name == nullptr) missing.push_back("nccl" #name);
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_NCCL_FIND)
#undef LOCKSTEP_NCCL_FIND
  if (missing.empty()) return ok();
  return unavailable(fmt::format("cannot use {}: found no {}, expected NCCL {} or newer; install one", path.string(),
                                 fmt::join(missing, ", "), text_of(kOldestVersion)));
}

Result<void> Library::check_version(const std::filesystem::path& path) {
  const ncclResult_t result = functions_.GetVersion(&version_);
  if (result != ncclSuccess) return error_of(result, "ask NCCL for its version");
  if (version_ >= kOldestVersion) return ok();
  return unavailable(fmt::format("cannot use {}: found NCCL {}, expected {} or newer; install one", path.string(),
                                 text_of(version_), text_of(kOldestVersion)));
}

std::string Library::version_text() const { return text_of(version_); }

}  // namespace lockstep::transport::nccl
