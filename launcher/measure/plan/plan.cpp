// `lockstep plan`: config.json ─► spec ─► every degree ─► tables and JSON. No weights, no MPI.
#include "launcher/measure/plan/plan.h"

#include <fmt/format.h>

#include "launcher/measure/plan/plan_text.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

Result<void> check_detail(const PlanCommand& command, const std::vector<inspect::Degree>& degrees) {
  if (!command.detail) return ok();
  if (*command.detail > static_cast<int>(degrees.size())) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] --detail: found {}, expected 1 to {}; raise --max-tp or lower it",
                             *command.detail, degrees.size())};
  }
  const inspect::Degree& degree = degrees[static_cast<size_t>(*command.detail - 1)];
  if (degree.working) return ok();
  return Error{ErrorKind::kUnsupported, degree.refusal};
}

}  // namespace

Result<void> plan(const PlanCommand& command) {
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  const bool is_directory = command.config.empty();
  LOCKSTEP_TRY(const Model model,
               Model::from_config(is_directory ? command.model.directory / "config.json" : command.config,
                                  command.model.options));
  LOCKSTEP_TRY(inspect::PlanReport report, inspect::make_plan(model, command.engine,
                                                              {.most_ranks = command.max_tp,
                                                               .prompt_tokens = command.prompt_tokens,
                                                               .new_tokens = command.new_tokens,
                                                               .machine = command.machine}));
  report.model = (is_directory ? command.model.directory : command.config).string();
  LOCKSTEP_TRY_VOID(check_detail(command, report.degrees));
  fmt::print("{}", to_text(report));
  if (command.detail) {
    const inspect::WorkingDegree& degree = *report.degrees[static_cast<size_t>(*command.detail - 1)].working;
    const inspect::PlanSetting& setting = report.setting;
    LOCKSTEP_TRY(report.gqa, cost::gqa_costs(setting.spec, degree.partition, setting.shard));
    fmt::print("\n{}\nkey/value heads at TP {} (docs/gqa.md): what the rank with most keeps and sends in a step\n{}",
               ranks_to_text(report, degree), degree.partition.ranks(), cost::to_text(report.gqa));
  }
  return command.json ? write_text_file(*command.json, inspect::to_json(report)) : Result<void>(ok());
}

}  // namespace lockstep::launcher
