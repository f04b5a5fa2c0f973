// What the ranks of `generate` do alike, whatever the job: plan, and tell of the run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cli/command_line.h"
#include "launcher/commands/generate_report.h"
#include "launcher/generate/requests.h"
#include "launcher/ranks/rank_setup.h"

namespace lockstep::launcher {

/// Prepares the job on rank 0; the others are told its sizes.
using PrepareJob = std::function<Result<JobSizes>(const checkpoint::ModelSpec& spec)>;

/// Config, partition and static sizes; nothing when there is nothing to do (no slots). @collective @blocking
Result<std::optional<Plan>> make_plan(const GenerateCommand& command, const RankContext& context,
                                      const PrepareJob& prepare);

/// What there is to say of the run, all ranks together. @collective @blocking
Result<RunFacts> facts_of(const RankContext& context, const Plan& plan, const LoadedModel& loaded,
                          const device::Communicator* communicator,
                          const std::vector<std::pair<std::string, double>>& startup);

}  // namespace lockstep::launcher
