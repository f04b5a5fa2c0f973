#include <fmt/format.h>

#include <array>

#include "runtime/backends/cpu/cpu.h"

namespace lockstep::cpu {
namespace {

constexpr std::array kRows = {
    device::OptionRow{.name = "instruction-set",
                      .value_name = "NAME",
                      .help = "For ranks on unlike machines: portable, avx2, avx512, avx512_bf16 or amx; default: the "
                              "machine's best (docs/numerics.md)",
                      .choices = "portable|avx2|avx512|avx512_bf16|amx",
                      .section = "CPU (--backend cpu)"},
};

/// The instruction set selected by the values, or the best of this machine.
Isa isa_for(const device::OptionValues& values) {
  const device::OptionReader options(kRows, values);
  return options.is_given("instruction-set") ? isa_of(options.text("instruction-set")).value() : best_isa();
}

/// Explains the fusion of nodes.
class Inspector final : public device::GraphInspector {
 public:
  Result<std::string> summary(std::span<const device::StepGraph>) const override { return std::string(); }
  Result<std::string> text_of(const device::StepGraph& step) const override { return explain(step.own); }
};

class Driver final : public device::BackendDriver {
 public:
  std::string_view name() const override { return "cpu"; }
  Result<void> available() const override { return ok(); }
  std::span<const device::OptionRow> options() const override { return kRows; }
  Result<void> check_options(const device::OptionValues& values) const override {
    LOCKSTEP_TRY_VOID(device::check_values(name(), kRows, values));
    return check_is_built(isa_for(values));
  }
  std::string statement(const device::OptionValues& values) const override {
    return fmt::format("--instruction-set {}\n", to_string(isa_for(values)));
  }
  device::Capabilities capabilities() const override { return cpu::capabilities(best_isa()); }
  device::DeviceSigns signs() const override { return {}; }
  Result<device::DevicePlan> place(const device::RankSite& site, const device::OptionValues&) const override {
    return device::same_device(site, "cpu");
  }
  Result<void> check(std::span<const device::StepGraph>, const device::RankSite&, const device::DevicePlan&,
                     const device::OptionValues&) const override {
    return ok();
  }
  Result<std::unique_ptr<device::Backend>> make(const device::RankSite& site, const device::DevicePlan&,
                                                const device::OptionValues& values) const override {
    return make_backend(
        {.threads = site.threads, .cores = {site.cores.begin(), site.cores.end()}, .isa = isa_for(values)});
  }
  const device::AheadCompiler* compiler() const override { return nullptr; }
  const device::DeviceRules* rules() const override { return nullptr; }
  const device::GraphInspector* inspector() const override { return &inspector_; }

 private:
  Inspector inspector_;
};

}  // namespace

const device::BackendDriver& driver() {
  static const Driver kDriver;
  return kDriver;
}

}  // namespace lockstep::cpu
