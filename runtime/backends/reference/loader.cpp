#include <dlfcn.h>

#include <system_error>

#include "runtime/backends/reference/module.h"

namespace lockstep::reference {
namespace {

/// "../lib" relative to the folder of the running program.
Result<std::filesystem::path> default_directory() {
  std::error_code status;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", status);
  if (status) {
    return Error{ErrorKind::kUnavailable,
                 fmt::format("[runtime/backends/reference] cannot find the program's own folder: {}; say where the "
                             "module lies",
                             status.message())};
  }
  return program.parent_path().parent_path() / "lib";
}

Error cannot_load(const std::filesystem::path& path, std::string_view found) {
  return {ErrorKind::kUnavailable,
          fmt::format("[runtime/backends/reference] cannot load the backend module: found {}, expected a module at {}; "
                      "build the target lockstep_backend_reference or choose another backend",
                      found, path.string())};
}

std::string last_loader_error() {
  const char* text = dlerror();
  return text == nullptr ? "no reason given" : text;
}

/// Returns the module's entry. The handle is never closed: libtorch cannot be unloaded, and backends use its code.
Result<const Module*> load(const std::filesystem::path& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return cannot_load(path, last_loader_error());
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(handle, kModuleEntryName));
  if (entry == nullptr) return cannot_load(path, last_loader_error());
  const Module* module = entry();
  if (module->build_id != build_id()) {
    return cannot_load(path,
                       fmt::format("the module of another build ({} instead of {})", module->build_id, build_id()));
  }
  return module;
}

}  // namespace

Result<void> Options::validate() const {
  if (threads >= 1) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[runtime/backends/reference] bad option: found {} threads, expected at least 1", threads)};
}

std::filesystem::path module_file_name() { return "liblockstep_backend_reference.so"; }

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options) {
  LOCKSTEP_TRY_VOID(options.validate());
  std::filesystem::path directory = options.module_directory;
  if (directory.empty()) {
    LOCKSTEP_TRY(directory, default_directory());
  }
  LOCKSTEP_TRY(const Module* module, load(directory / module_file_name()));
  return module->make(options);
}

}  // namespace lockstep::reference
