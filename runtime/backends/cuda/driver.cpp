#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/backends/cuda/backend.h"
#include "runtime/backends/cuda/cuda.h"
#include "runtime/backends/cuda/explain.h"
#include "runtime/backends/cuda/gpu_kind.h"
#include "runtime/backends/cuda/option_rows.h"
#include "runtime/backends/cuda/placement.h"
#include "runtime/backends/cuda/step_memory.h"
#include "runtime/backends/cuda/step_plan.h"
#include "runtime/cuda/context.h"
#include "runtime/device/rank_exchange.h"
#include "runtime/topology/discovery.h"

namespace lockstep::cuda {
namespace {

class Inspector final : public device::GraphInspector {
 public:
  Result<std::string> summary(std::span<const device::StepGraph> steps) const override { return explain_memory(steps); }
  Result<std::string> text_of(const device::StepGraph& step) const override { return explain(step.own); }
};

class Rules final : public device::DeviceRules {
 public:
  device::DeviceFacts facts(const device::OptionValues& values, const device::ProbedWork& work) const override {
    const std::string kind = device::OptionReader(option_rows(), values).text("device-kind");
    return facts_of(gpu_kind(kind.empty() ? "h100" : kind), work);
  }
  std::string why_not_degree(int ranks, const device::OptionValues&) const override {
    if (ranks <= kMostRanks) return "";
    return fmt::format("--backend cuda: found {} ranks, expected at most {}", ranks, kMostRanks);
  }
  Result<device::DeviceMemory> memory_of(std::span<const device::StepGraph> steps,
                                         const device::OptionValues&) const override {
    return memory_of_steps(steps);
  }
};

/// This machine with its PCI devices; an unknown one where hwloc fails, which doctor reports.
topology::Machine machine_with_devices() {
  auto machine = topology::read_machine(topology::Devices::kPci);
  return machine.has_value() ? std::move(machine).value() : topology::Machine();
}

/// The GPUs that this process sees; none without a driver.
std::vector<GpuSite> visible_gpus(const std::filesystem::path& library) {
  std::vector<GpuSite> gpus;
  const auto driver = cu::Driver::open(library);
  if (!driver.has_value()) return gpus;
  const topology::Machine machine = machine_with_devices();
  for (int ordinal = 0; ordinal < driver.value()->devices(); ++ordinal) {
    const auto facts = driver.value()->facts(ordinal);
    const auto* const device = facts.has_value() ? machine.find_device(facts.value().bus) : nullptr;
    gpus.push_back({device == nullptr ? std::vector<int>() : device->cores});
  }
  return gpus;
}

std::string line_of(const cu::DeviceFacts& facts, const topology::Machine& machine) {
  const topology::PciDevice* const device = machine.find_device(facts.bus);
  return fmt::format("GPU {}: {}, {}, compute capability {}.{}, {} multiprocessors, {}{}", facts.ordinal, facts.name,
                     to_string(facts.memory), facts.major, facts.minor, facts.multiprocessors, facts.bus,
                     device == nullptr ? "" : " near " + topology::where(machine, device->cores));
}

/// Which pairs of GPUs cannot use each other's memory; or that all can.
Result<std::string> links_of(const cu::Driver& driver) {
  std::vector<std::string> apart;
  for (int one = 0; one < driver.devices(); ++one) {
    for (int other = one + 1; other < driver.devices(); ++other) {
      LOCKSTEP_TRY(const bool there, driver.sees(one, other));
      LOCKSTEP_TRY(const bool back, driver.sees(other, one));
      if (!there || !back) apart.push_back(fmt::format("{} and {}", one, other));
    }
  }
  if (apart.empty()) return std::string("all GPUs see each other's memory");
  return fmt::format("ranks cannot sum over GPUs {}, which do not see each other's memory", fmt::join(apart, ", "));
}

StepOptions step_options(const device::RankSite& site) { return {.uses_blas = site.sums == device::SumOrder::kAny}; }

class Driver final : public device::BackendDriver {
 public:
  std::string_view name() const override { return "cuda"; }
  Result<void> available() const override { return ok(); }
  std::span<const device::OptionRow> options() const override { return option_rows(); }
  Result<void> check_options(const device::OptionValues& values) const override {
    return device::check_values(name(), option_rows(), values);
  }
  std::string statement(const device::OptionValues& values) const override {
    const device::OptionReader options(option_rows(), values);
    return options.is_given("device-kind") ? fmt::format("--device-kind {}\n", options.text("device-kind")) : "";
  }
  device::Capabilities capabilities() const override { return cuda::capabilities(); }
  device::DeviceSigns signs() const override { return kSigns; }

  Result<std::vector<std::string>> describe_devices() const override {
    LOCKSTEP_TRY(const auto driver, cu::Driver::open());
    std::vector<std::string> lines = {fmt::format("driver of CUDA {}", driver->version_text())};
    const topology::Machine machine = machine_with_devices();
    for (int ordinal = 0; ordinal < driver->devices(); ++ordinal) {
      LOCKSTEP_TRY(const cu::DeviceFacts facts, driver->facts(ordinal));
      lines.push_back(line_of(facts, machine));
    }
    if (driver->devices() > 1) {
      LOCKSTEP_TRY(std::string links, links_of(*driver));
      lines.push_back(std::move(links));
    }
    return lines;
  }

  Result<device::DevicePlan> place(const device::RankSite& site, const device::OptionValues& values) const override {
    const device::OptionReader options(option_rows(), values);
    LOCKSTEP_TRY(const std::vector<std::string> told,
                 site.exchange(to_text(visible_gpus(options.text("cuda-driver")))));
    std::vector<std::vector<GpuSite>> gpus;
    for (const std::string& text : told) {
      LOCKSTEP_TRY(gpus.emplace_back(), parse_gpus(text));
    }
    return place_on_gpus(site.places, gpus, options.flag("share-devices"));
  }

  Result<void> check(std::span<const device::StepGraph> steps, const device::RankSite& site,
                     const device::DevicePlan& plan, const device::OptionValues& values) const override {
    const device::OptionReader options(option_rows(), values);
    LOCKSTEP_TRY(const device::DeviceMemory needed,
                 memory_of_steps(steps, step_options(site), device::hosts_from(site.places)));
    if (options.is_given("device-kind")) {
      const device::DeviceFacts facts = rules_.facts(values, {});
      return check_memory(needed, facts.memory, facts.name, site.rank);
    }
    const int ordinal = plan.ordinals.at(static_cast<size_t>(site.rank));
    LOCKSTEP_TRY(const auto driver, cu::Driver::open(options.text("cuda-driver")));
    LOCKSTEP_TRY(const auto context, cu::Context::create(*driver, ordinal));
    // Ranks that share a GPU take their memory at the same time, so each counts its share of the whole.
    const int ranks = ranks_of_device(site.places, plan, site.rank);
    Bytes available(context->device().memory.value / ranks);
    if (ranks == 1) {
      LOCKSTEP_TRY(available, context->free_memory());
    }
    return check_memory(needed, available, fmt::format("GPU {} ({})", ordinal, context->device().name), site.rank);
  }

  Result<std::unique_ptr<device::Backend>> make(const device::RankSite& site, const device::DevicePlan& plan,
                                                const device::OptionValues& values) const override {
    const device::OptionReader options(option_rows(), values);
    Result<std::unique_ptr<device::Backend>> made =
        make_backend({.driver = options.text("cuda-driver"),
                      .ordinal = plan.ordinals.at(static_cast<size_t>(site.rank)),
                      .ranks_of_device = ranks_of_device(site.places, plan, site.rank),
                      .deadline = site.step_deadline,
                      .abort = site.abort,
                      .hosts = device::hosts_from(site.places),
                      .connect = site.connect_devices,
                      .exchange_library = options.text("nccl"),
                      .host_threads = site.threads,
                      .steps = step_options(site),
                      .blas = options.text("cublas"),
                      .early_launches = !options.flag("plain-launches")});
    // The others would wait for a rank without a GPU when they compile.
    if (site.size() > 1 && site.exchange) {
      const Result<void> mine = made.has_value() ? Result<void>(ok()) : Result<void>(made.error());
      LOCKSTEP_TRY_VOID(device::all_succeeded(site.exchange, mine));
    }
    return made;
  }

  const device::AheadCompiler* compiler() const override { return nullptr; }
  const device::DeviceRules* rules() const override { return &rules_; }
  const device::GraphInspector* inspector() const override { return &inspector_; }

 private:
  const Rules rules_;
  const Inspector inspector_;
};

}  // namespace

const device::BackendDriver& driver() {
  static const Driver kDriver;
  return kDriver;
}

}  // namespace lockstep::cuda
