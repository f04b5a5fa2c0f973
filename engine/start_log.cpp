#include "engine/start_log.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

/// "4 ranks on 2 hosts, started by srun: mpi (Open MPI 4.1.4, threads serialized)".
std::string launch_line(const group::Member& member, const group::Placement& placement) {
  const auto counted = [](int count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  const std::string by = placement.launcher == transport::Launcher::kNone
                             ? ""
                             : fmt::format(", started by {}", transport::to_string(placement.launcher));
  return fmt::format("{} on {}{}: {}", counted(member.size(), "rank"), counted(placement.hosts(), "host"), by,
                     member.group().name());
}

}  // namespace

void log_plan(const group::Member& member, const model::Plan& plan, const group::ChosenCommunicator& chosen) {
  if (!member.leads()) return;
  const Log& log = member.log();
  log.info("{}", launch_line(member, plan.placement));
  log.info("where the ranks are:\n{}\n", rank_table(plan.placement));
  const model::ModelPlan& model = plan.model;
  if (model.partition.ranks() > 1) log.info("partition:\n{}", partition::to_text(model.spec, model.partition));
  for (const std::string& note : chosen.notes) log.warning("{}", note);
  for (const transport::Choice& choice : chosen.choices) {
    log.info("messages up to {} go by {} ({:.1f} us)", to_string(Bytes(choice.bytes)), choice.name,
             choice.microseconds);
  }
  log.info("{} slots of {} tokens, prefill chunks of {} rows, {}, {} threads a rank{}", model.shard.slots,
           model.shard.capacity, model.shard.chunk, to_string(model.shard.dtype), plan.threads,
           plan.cores.empty() ? "" : ", each bound to a core");
  if (model.shard.drafts == 0) return;
  log.info("{} tokens are drafted a step by {}", model.shard.drafts,
           plan.draft ? plan.draft->checkpoint->string() : "looking them up in the row's own past");
}

std::string phases_line(const group::RunPhases& phases) {
  std::string line = "ready:";
  for (const auto& [name, seconds] : phases.seconds()) line += fmt::format(" {} {:.2f} s,", name, seconds);
  line.pop_back();
  return line;
}

}  // namespace lockstep
