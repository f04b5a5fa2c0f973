// The machine's limits by runtime/probe: each rank of a host alone, then all together.
#include <fmt/format.h>

#include <algorithm>

#include "engine/group/agreement.h"
#include "launcher/measure/bench/limits_probe.h"
#include "launcher/measure/doctor/judgements.h"
#include "launcher/measure/doctor/stages.h"

namespace lockstep::launcher {
namespace {

/// The limits of this rank while the others of its host wait; hosts measure at the same time.
Result<Limits> measure_alone(const DoctorRank& rank, LimitsProbe& probe) {
  const device::RankPlace& own = rank.plan.places[static_cast<size_t>(rank.rank())];
  int turns = 0;
  for (const device::RankPlace& place : rank.plan.places) turns = std::max(turns, place.local_size);
  Limits alone;
  for (int turn = 0; turn < turns; ++turn) {
    LOCKSTEP_TRY_VOID(rank.member.bootstrap().barrier());
    if (own.local_rank != turn) continue;
    LOCKSTEP_TRY(alone, probe.measure_alone());
  }
  return alone;
}

/// What a hypervisor took of the cores' time so far.
double stolen_share(const process::CoreWatch& watch) {
  const process::CoreLosses lost = watch.losses();
  return lost.time > Duration::zero() ? to_seconds(lost.stolen) / to_seconds(lost.time) : 0.0;
}

Result<void> gather(DoctorRank& rank, const Limits& alone) {
  LOCKSTEP_TRY(const auto told,
               rank.member.bootstrap().exchange(fmt::format("{:.6g} {:.6g} {:.6g}", alone.read_bytes_per_s,
                                                            alone.flops_per_s, stolen_share(rank.watch))));
  for (size_t other = 0; other < told.size(); ++other) {
    char* rest = nullptr;
    rank.report.ranks[other].read_bytes_per_s = std::strtod(told[other].c_str(), &rest);
    rank.report.ranks[other].flops_per_s = std::strtod(rest, &rest);
    rank.report.ranks[other].stolen_share = std::strtod(rest, nullptr);
  }
  return ok();
}

}  // namespace

Result<Check> run_machine(DoctorRank& rank) {
  if (rank.command.quick) return skipped_check("left out by --quick");
  rank.plan.model.shard.dtype = DType::kBFloat16;  // on machines with instructions for it
  Result<LimitsProbe> made =
      LimitsProbe::of_hosts(rank.member, rank.plan, rank.command.probe_bytes, probe::Instructions::kAll);
  LOCKSTEP_TRY_VOID(group::all_succeeded(rank.member.bootstrap(),
                                         made.has_value() ? Result<void>(ok()) : Result<void>(made.error())));
  LimitsProbe probe = std::move(made).value();
  LOCKSTEP_TRY(const Limits alone, measure_alone(rank, probe));
  LOCKSTEP_TRY_VOID(gather(rank, alone));
  LOCKSTEP_TRY_VOID(probe.take());
  LOCKSTEP_TRY(const Limits together, probe.limits());
  rank.report.limits = LimitsLine{.read_bytes_per_s = together.read_bytes_per_s,
                                  .flops_per_s = together.flops_per_s,
                                  .precision = probe.precision()};
  return judge_machine(rank.report);
}

}  // namespace lockstep::launcher
