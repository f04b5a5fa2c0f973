#include "runtime/backends/reference/capabilities.h"
#include "runtime/backends/reference/reference.h"

namespace lockstep::reference {
namespace {

class Driver final : public device::BackendDriver {
 public:
  std::string_view name() const override { return "reference"; }
  Result<void> available() const override { return ok(); }
  std::span<const device::OptionRow> options() const override { return {}; }
  Result<void> check_options(const device::OptionValues& values) const override {
    return device::check_values(name(), options(), values);
  }
  std::string statement(const device::OptionValues&) const override { return {}; }
  device::Capabilities capabilities() const override { return reference::capabilities(); }
  device::DeviceSigns signs() const override { return {}; }
  Result<device::DevicePlan> place(const device::RankSite& site, const device::OptionValues&) const override {
    return device::same_device(site, "cpu");
  }
  Result<void> check(std::span<const device::StepGraph>, const device::RankSite&, const device::DevicePlan&,
                     const device::OptionValues&) const override {
    return ok();
  }
  Result<std::unique_ptr<device::Backend>> make(const device::RankSite& site, const device::DevicePlan&,
                                                const device::OptionValues&) const override {
    return make_backend({.threads = site.threads});
  }
  const device::AheadCompiler* compiler() const override { return nullptr; }
  const device::DeviceRules* rules() const override { return nullptr; }
  const device::GraphInspector* inspector() const override { return nullptr; }
};

}  // namespace

const device::BackendDriver& driver() {
  static const Driver kDriver;
  return kDriver;
}

}  // namespace lockstep::reference
