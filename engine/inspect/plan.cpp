#include "engine/inspect/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/drivers.h"
#include "engine/inspect/machine_description.h"
#include "engine/model/plan.h"
#include "engine/model/requirements.h"
#include "engine/model/served_spec.h"

namespace lockstep::inspect {
namespace {

Error cannot_size(std::string_view found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[engine/inspect] cannot size the slots: found {}, expected {}", found, expected)};
}

/// Sets prompt and capacity as given, and the missing ones from the model's limits.
Result<void> size_slots(const EngineOptions& options, const PlanOptions& plan, PlanSetting& setting,
                        int64_t& capacity) {
  constexpr int64_t kDefaultPrompt = 512;
  cost::Workload& load = setting.load;
  load.batch = options.slots.value_or(1);
  load.new_tokens = plan.new_tokens;
  const int64_t after = load.new_tokens - 1;  // the last token is never cached
  const std::optional<int64_t> longest = model::longest_sequence(setting.spec);
  const int64_t roomy = std::max(model::default_capacity(setting.spec), plan.prompt_tokens.value_or(1) + after);
  capacity = options.capacity.value_or(longest ? std::min(roomy, *longest) : roomy);
  load.prompt_tokens = plan.prompt_tokens.value_or(std::max<int64_t>(1, std::min(kDefaultPrompt, capacity - after)));
  const int64_t needed = load.prompt_tokens + after;
  if (capacity > longest.value_or(capacity)) {
    return cannot_size(fmt::format("--max-seq-len {}", capacity),
                       fmt::format("at most {} (max_position_embeddings of the model); lower it", *longest));
  }
  if (needed <= capacity) return ok();
  const bool may_grow = needed <= longest.value_or(needed);
  return cannot_size(fmt::format("{} tokens (--prompt-tokens and --new-tokens)", needed),
                     fmt::format("at most {} ({}); lower them{}", may_grow ? capacity : *longest,
                                 may_grow ? "a slot's" : "max_position_embeddings of the model",
                                 may_grow ? " or raise --max-seq-len" : ""));
}

/// The devices of the chosen backend, or of the one whose options are given; none for a backend without rules. Fails
/// for a backend that this build lacks.
Result<std::optional<PlannedDevices>> planned_devices(const EngineOptions& options) {
  std::optional<PlannedDevices> devices;
  for (const device::BackendDriver* driver : engine::drivers()) {
    device::OptionValues values = device::own_options(*driver, options.backend_options);
    const bool is_chosen = driver->name() == options.backend;
    if (values.empty() && !is_chosen) continue;
    LOCKSTEP_TRY_VOID(driver->available());
    if (values.empty() && driver->rules() == nullptr) continue;
    LOCKSTEP_TRY_VOID(driver->check_options(values));
    LOCKSTEP_CHECK(driver->rules() != nullptr, driver->name());
    if (devices) {
      return Error{
          ErrorKind::kInvalidArgument,
          fmt::format("[engine/inspect] cannot plan: found devices of {} and of {}, expected one kind; omit the "
                      "options of one",
                      devices->driver.name(), driver->name())};
    }
    devices.emplace(PlannedDevices{*driver, std::move(values)});
  }
  return devices;
}

/// The plan without its degrees.
Result<PlanReport> posed(const Model& model, const EngineOptions& options, const PlanOptions& plan) {
  PlanReport report;
  report.model = model.directory().value_or(model.config_file()).string();
  report.reported = plan.degrees;
  PlanSetting& setting = report.setting;
  setting.spec = model.spec();
  setting.partition = options.partition;
  if (options.memory_budget) setting.budget = options.memory_budget->value;
  LOCKSTEP_TRY(const auto devices, planned_devices(options));
  if (devices) setting.devices.emplace(*devices);
  int64_t capacity = 0;
  LOCKSTEP_TRY_VOID(size_slots(options, plan, setting, capacity));
  LOCKSTEP_TRY(setting.shard, model::shard_options(options, model.dtype(), setting.load.batch, capacity));
  std::optional<device::DeviceFacts> facts;
  if (devices) {
    LOCKSTEP_TRY_VOID(model::require_operations(setting.spec, devices->driver.capabilities()));
    setting.shard.bucketed = shards::bucketed_steps(devices->driver.capabilities());
    facts =
        devices->facts(setting.shard.dtype, precision_of(setting.spec, setting.shard.dtype) == probe::Precision::kInt8);
    setting.device = facts->name;
    if (!setting.budget) setting.budget = facts->memory.value;
  }
  const SteadyClock clock;
  LOCKSTEP_TRY(MachineDescription machine,
               describe_machine(plan.machine, precision_of(setting.spec, setting.shard.dtype), clock,
                                facts ? facts->limits : std::nullopt));
  setting.machine = std::move(machine.limits);
  report.assumptions = std::move(machine.words);
  if (facts) {
    report.assumptions.push_back(
        facts->words +
        (facts->limits ? "" : "; speeds are those of the numbers above, give --bandwidth and --flops of a device"));
  }
  return report;
}

}  // namespace

bool PlanReport::reports(const Degree& degree) const {
  return reported.empty() || std::ranges::find(reported, degree.ranks) != reported.end();
}

Result<PlanReport> make_plan(const Model& model, const EngineOptions& options, const PlanOptions& plan) {
  LOCKSTEP_TRY(PlanReport report, posed(model, options, plan));
  LOCKSTEP_TRY(report.degrees, plan_degrees(report.setting, plan.most_ranks));
  std::vector<Degree> choice;
  std::ranges::copy_if(report.degrees, std::back_inserter(choice), [&](const Degree& d) { return report.reports(d); });
  report.best = best_of(report.setting, choice);
  return report;
}

}  // namespace lockstep::inspect

namespace lockstep {

Result<std::string> plan_document(const Model& model, const EngineOptions& options, const PlanOptions& plan) {
  LOCKSTEP_TRY(const inspect::PlanReport report, inspect::make_plan(model, options, plan));
  return inspect::to_json(report);
}

}  // namespace lockstep
