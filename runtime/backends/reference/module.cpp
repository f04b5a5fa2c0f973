// The module's entry point.
#include "runtime/backends/reference/module.h"

#include "runtime/backends/aten/operations.h"
#include "runtime/backends/reference/backend.h"

namespace lockstep::reference {
namespace {

Result<std::unique_ptr<device::Backend>> make(const Options& options) {
  LOCKSTEP_TRY_VOID(aten::set_threads(options.threads));
  return std::unique_ptr<device::Backend>(std::make_unique<Backend>());
}

}  // namespace
}  // namespace lockstep::reference

extern "C" __attribute__((visibility("default"))) const lockstep::reference::Module*
lockstep_backend_reference_module() {
  static const std::string id = lockstep::reference::build_id();
  static const lockstep::reference::Module module{id.c_str(), lockstep::reference::make};
  return &module;
}
