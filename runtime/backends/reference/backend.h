// The implementation of the reference backend inside its module; see reference.h.
#pragma once

#include "runtime/backends/reference/capabilities.h"

namespace lockstep::reference {

class Backend final : public device::Backend {
 public:
  std::string_view name() const override { return "reference"; }
  device::Capabilities capabilities() const override { return reference::capabilities(); }
  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override;
  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store& store,
                                                      const device::CompileOptions& options) override;
};

}  // namespace lockstep::reference
