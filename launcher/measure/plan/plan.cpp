// `lockstep plan`: config.json ─► spec ─► every degree ─► tables and JSON. No weights, no MPI.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/drivers.h"
#include "engine/model/plan.h"
#include "engine/model/served_spec.h"
#include "launcher/measure/plan/machine_description.h"
#include "launcher/measure/plan/plan.h"
#include "launcher/measure/plan/plan_report.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

/// Sets prompt and capacity as given, and the missing ones from the model's limits.
Result<void> size_slots(const PlanCommand& command, PlanSetting& setting, int64_t& capacity) {
  constexpr int64_t kDefaultPrompt = 512;
  cost::Workload& load = setting.load;
  load.batch = command.engine.slots.value_or(1);
  load.new_tokens = command.new_tokens;
  const int64_t after = load.new_tokens - 1;  // the last token is never cached
  const std::optional<int64_t> longest = model::longest_sequence(setting.spec);
  const int64_t roomy = std::max(model::default_capacity(setting.spec), command.prompt_tokens.value_or(1) + after);
  capacity = command.engine.capacity.value_or(longest ? std::min(roomy, *longest) : roomy);
  load.prompt_tokens = command.prompt_tokens.value_or(std::max<int64_t>(1, std::min(kDefaultPrompt, capacity - after)));
  const int64_t needed = load.prompt_tokens + after;
  if (needed <= capacity && capacity <= longest.value_or(capacity)) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] cannot size the slots: found {} tokens, expected {} (--prompt-tokens and "
                           "--new-tokens) to {} (max_position_embeddings of the model); change them or --max-seq-len",
                           capacity, needed, longest.value_or(capacity))};
}

/// The devices of the chosen backend, or of the one whose options are given; none for a backend without rules. Fails
/// for a backend that this build lacks.
Result<std::optional<PlannedDevices>> planned_devices(const PlanCommand& command) {
  std::optional<PlannedDevices> devices;
  for (const device::BackendDriver* driver : engine::drivers()) {
    device::OptionValues values = device::own_options(*driver, command.engine.backend_options);
    const bool is_chosen = driver->name() == command.engine.backend;
    if (values.empty() && !is_chosen) continue;
    LOCKSTEP_TRY_VOID(driver->available());
    if (values.empty() && driver->rules() == nullptr) continue;
    LOCKSTEP_TRY_VOID(driver->check_options(values));
    LOCKSTEP_CHECK(driver->rules() != nullptr, driver->name());
    if (devices) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[launcher] cannot plan: found devices of {} and of {}, expected one kind; omit the "
                               "options of one",
                               devices->driver.name(), driver->name())};
    }
    devices.emplace(PlannedDevices{*driver, std::move(values)});
  }
  return devices;
}

Result<void> check_detail(const PlanCommand& command, const std::vector<Degree>& degrees) {
  if (!command.detail) return ok();
  if (*command.detail > static_cast<int>(degrees.size())) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] --detail: found {}, expected 1 to {}; raise --max-tp or lower it",
                             *command.detail, degrees.size())};
  }
  const Degree& degree = degrees[static_cast<size_t>(*command.detail - 1)];
  if (degree.working) return ok();
  return Error{ErrorKind::kUnsupported, degree.refusal};
}

}  // namespace

Result<void> plan(const PlanCommand& command) {
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  const bool is_directory = command.config.empty();
  PlanReport report;
  report.model = (is_directory ? command.model.directory : command.config).string();
  PlanSetting& setting = report.setting;
  LOCKSTEP_TRY(const Model model,
               Model::from_config(is_directory ? command.model.directory / "config.json" : command.config,
                                  command.model.options));
  setting.spec = model.spec();
  setting.partition = command.engine.partition;
  if (command.engine.memory_budget) setting.budget = command.engine.memory_budget->value;
  LOCKSTEP_TRY(const auto devices, planned_devices(command));
  if (devices) setting.devices.emplace(*devices);
  int64_t capacity = 0;
  LOCKSTEP_TRY_VOID(size_slots(command, setting, capacity));
  LOCKSTEP_TRY(setting.shard, model::shard_options(command.engine, model.dtype(), setting.load.batch, capacity));
  std::optional<device::DeviceFacts> facts;
  if (devices) {
    setting.shard.bucketed = shards::bucketed_steps(devices->driver.capabilities());
    facts = devices->facts(setting.shard.dtype, setting.spec.int8_group > 0);
    setting.device = facts->name;
    if (!setting.budget) setting.budget = facts->memory.value;
  }
  const SteadyClock clock;
  LOCKSTEP_TRY(MachineDescription machine,
               describe_machine(command.machine, precision_of(setting.spec, setting.shard.dtype), clock,
                                facts ? facts->limits : std::nullopt));
  setting.machine = std::move(machine.limits);
  report.assumptions = std::move(machine.words);
  if (facts) {
    report.assumptions.push_back(
        facts->words +
        (facts->limits ? "" : "; speeds are those of the numbers above, give --bandwidth and --flops of a device"));
  }
  LOCKSTEP_TRY(report.degrees, plan_degrees(setting, command.max_tp));
  LOCKSTEP_TRY_VOID(check_detail(command, report.degrees));
  report.best = best_of(setting, report.degrees);
  fmt::print("{}", to_text(report));
  if (command.detail) {
    const WorkingDegree& degree = *report.degrees[static_cast<size_t>(*command.detail - 1)].working;
    LOCKSTEP_TRY(report.gqa, cost::gqa_costs(setting.spec, degree.partition, setting.shard));
    fmt::print("\n{}\nkey/value heads at TP {} (docs/gqa.md): what the rank with most keeps and sends in a step\n{}",
               ranks_to_text(report, degree), degree.partition.ranks(), cost::to_text(report.gqa));
  }
  return command.json ? write_text_file(*command.json, to_json(report)) : Result<void>(ok());
}

}  // namespace lockstep::launcher
