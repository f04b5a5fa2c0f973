#include "launcher/measure/doctor/stages.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/drivers.h"
#include "launcher/measure/doctor/judgements.h"
#include "launcher/process/own_environment.h"

namespace lockstep::launcher {
namespace {

constexpr std::array kStages = {
    Stage{.name = "launch", .run = nullptr, .ends_it = true},
    Stage{.name = "MPI start", .run = nullptr, .ends_it = true},
    Stage{.name = "places", .run = run_places},
    Stage{.name = "program", .run = run_program, .ends_it = true},
    Stage{.name = "hosts", .run = run_hosts},
    Stage{.name = "file limits", .run = run_limits},
    Stage{.name = "devices", .run = run_devices},
    Stage{.name = "clocks", .run = run_clocks},
    Stage{.name = "shared memory", .run = run_shared_memory},
    Stage{.name = "control plane", .run = run_control_plane},
    Stage{.name = "loopback", .run = run_loopback, .deadlines = 2},
    Stage{.name = "shm", .run = run_shm, .deadlines = 2},
    Stage{.name = "mpi", .run = run_mpi, .deadlines = 2},
    Stage{.name = "two-level", .run = run_two_level, .deadlines = 2},
    Stage{.name = "model files", .run = run_model, .deadlines = 3},
    Stage{.name = "machine limits", .run = run_machine, .deadlines = 12},
};

double wall_seconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

std::span<const Stage> stages() { return kStages; }

bool DoctorRank::passed(const char* name) const {
  const auto found = std::ranges::find(report.checks, name, &Check::name);
  return found != report.checks.end() && found->status != CheckStatus::kFailed;
}

Check skipped_check(std::string why) {
  Check check{.status = CheckStatus::kSkipped};
  check.found = std::move(why);
  return check;
}

Result<Check> run_places(DoctorRank& rank) {
  const device::Capabilities backend = engine::drivers().front()->capabilities();
  LOCKSTEP_TRY_VOID(model::place_ranks(rank.member, rank.command.engine, backend, rank.plan));
  LOCKSTEP_TRY(const auto told, rank.member.bootstrap().exchange(to_text(own_facts(own_variable))));
  for (size_t other = 0; other < told.size(); ++other) {
    LOCKSTEP_TRY(RankFacts facts, parse_facts(told[other], static_cast<int>(other)));
    rank.facts.push_back(std::move(facts));
  }
  rank.report.hosts = host_lines(rank.plan.placement, rank.facts);
  rank.report.ranks = rank_lines(rank.plan.placement);
  return judge_places(rank.plan.placement);
}

Result<Check> run_program(DoctorRank& rank) { return judge_program(rank.plan.placement, rank.facts); }
Result<Check> run_hosts(DoctorRank& rank) { return judge_hosts(rank.plan.placement, rank.facts); }
Result<Check> run_limits(DoctorRank& rank) { return judge_limits(rank.plan.placement, rank.facts); }
Result<Check> run_devices(DoctorRank& rank) { return judge_devices(rank.plan.placement, rank.facts); }

Result<Check> run_clocks(DoctorRank& rank) {
  constexpr int kRounds = 5;  // the round in which the ranks left the barrier closest together counts
  std::vector<double> offsets(static_cast<size_t>(rank.size()), 1e300);
  for (int round = 0; round < kRounds; ++round) {
    LOCKSTEP_TRY_VOID(rank.member.bootstrap().barrier());
    LOCKSTEP_TRY(const auto told, rank.member.bootstrap().exchange(fmt::format("{:.9f}", wall_seconds())));
    const double first = std::strtod(told.front().c_str(), nullptr);
    for (size_t other = 0; other < told.size(); ++other) {
      const double offset = std::strtod(told[other].c_str(), nullptr) - first;
      if (std::abs(offset) < std::abs(offsets[other])) offsets[other] = offset;
    }
  }
  return judge_clocks(rank.plan.placement, offsets);
}

}  // namespace lockstep::launcher
