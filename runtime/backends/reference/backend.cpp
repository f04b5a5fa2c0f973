#include "runtime/backends/reference/backend.h"

#include "runtime/backends/reference/executable.h"
#include "runtime/backends/reference/store.h"

namespace lockstep::reference {

Result<std::unique_ptr<device::Store>> Backend::make_store(std::span<const device::StepGraph> steps) {
  LOCKSTEP_TRY(std::unique_ptr<device::Store> store, Store::make(steps));
  return store;
}

Result<std::unique_ptr<device::Executable>> Backend::compile(const device::StepGraph& step, device::Store& store,
                                                             const device::CompileOptions& options) {
  auto* own = dynamic_cast<Store*>(&store);
  LOCKSTEP_CHECK(own != nullptr);  // a store of another backend
  LOCKSTEP_TRY(std::unique_ptr<Executable> executable, Executable::make(step.own, *own, options));
  own->add_workspace(Bytes(executable->workspace_bytes()));
  return std::unique_ptr<device::Executable>(std::move(executable));
}

}  // namespace lockstep::reference
