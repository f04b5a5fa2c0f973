#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/backends/neuron/ahead.h"
#include "runtime/backends/neuron/launch/instances.h"
#include "runtime/backends/neuron/launch/settings.h"
#include "runtime/backends/neuron/launch/start.h"
#include "runtime/backends/neuron/neuron.h"
#include "runtime/backends/neuron/option_rows.h"

namespace lockstep::neuron {
namespace {

class Ahead final : public device::AheadCompiler {
 public:
  Result<std::unique_ptr<device::AheadCompilation>> open(std::span<const device::StepGraph> steps,
                                                         const device::AheadSite& site,
                                                         const device::OptionValues& values) const override {
    return open_compilation(steps, site, values);
  }
};

class Rules final : public device::DeviceRules {
 public:
  device::DeviceFacts facts(const device::OptionValues& values, const device::ProbedWork&) const override {
    const InstanceFamily& family = family_of(target_of(values));
    return {std::string(to_string(family.target)), family.core_memory,
            fmt::format("{}: degrees {} and {} of memory for a core, as AWS documents them", to_string(family.target),
                        fmt::join(family.degrees, ", "), lockstep::to_string(family.core_memory)),
            std::nullopt};
  }
  std::string why_not_degree(int ranks, const device::OptionValues& values) const override {
    const std::string why_not = neuron::why_not_degree(family_of(target_of(values)), ranks);
    return why_not.empty() ? "" : "--neuron-target: " + why_not;
  }
  Result<device::DeviceMemory> memory_of(std::span<const device::StepGraph> steps,
                                         const device::OptionValues&) const override {
    LOCKSTEP_TRY(const MemoryEstimate estimate, estimate_memory(steps));
    return device::DeviceMemory{estimate.weights, estimate.caches, estimate.slots, estimate.exchanged};
  }
};

class Inspector final : public device::GraphInspector {
 public:
  Result<std::string> summary(std::span<const device::StepGraph> steps) const override {
    LOCKSTEP_TRY(const MemoryEstimate memory, estimate_memory(steps));
    return fmt::format("memory of a core: {}, and what the compiler and the runtime add", to_string(memory));
  }
  Result<std::string> text_of(const device::StepGraph& step) const override { return explain(step.of_all_ranks); }
};

class Driver final : public device::BackendDriver {
 public:
  std::string_view name() const override { return "neuron"; }
  Result<void> available() const override { return ok(); }
  std::span<const device::OptionRow> options() const override { return option_rows(); }
  Result<void> check_options(const device::OptionValues& values) const override {
    LOCKSTEP_TRY_VOID(device::check_values(name(), option_rows(), values));
    LOCKSTEP_TRY_VOID(compiler_options(values, std::nullopt));
    return ok();
  }
  std::string statement(const device::OptionValues& values) const override {
    const device::OptionReader reader(option_rows(), values);
    std::string text;
    for (const char* option : {"neuron-target", "neuron-cc-flags-prefill", "neuron-cc-flags-decode"}) {
      text += fmt::format("--{} {}\n", option, reader.text(option));
    }
    return text;
  }
  device::Capabilities capabilities() const override { return neuron::capabilities(); }
  device::DeviceSigns signs() const override { return kSigns; }
  Result<device::DevicePlan> place(const device::RankSite& site, const device::OptionValues& values) const override {
    return place_ranks(site, values);
  }
  Result<void> check(std::span<const device::StepGraph> steps, const device::RankSite&, const device::DevicePlan&,
                     const device::OptionValues& values) const override {
    LOCKSTEP_TRY(const MemoryEstimate estimate, estimate_memory(steps));
    return check_core_memory(family_of(target_of(values)), estimate);
  }
  Result<std::unique_ptr<device::Backend>> make(const device::RankSite& site, const device::DevicePlan& plan,
                                                const device::OptionValues& values) const override {
    return start_backend(site, plan, values);
  }
  const device::AheadCompiler* compiler() const override { return &ahead_; }
  const device::DeviceRules* rules() const override { return &rules_; }
  const device::GraphInspector* inspector() const override { return &inspector_; }

 private:
  const Ahead ahead_;
  const Rules rules_;
  const Inspector inspector_;
};

}  // namespace

const device::BackendDriver& driver() {
  static const Driver kDriver;
  return kDriver;
}

}  // namespace lockstep::neuron
