// The table of `lockstep doctor`'s stages, in order. Each stage gathers facts, judges them and returns one check; its
// error stops the doctor if the others cannot continue. A new check is a row and a function.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/group/member.h"
#include "engine/group/placement.h"
#include "engine/model/plan.h"
#include "launcher/measure/doctor/doctor.h"
#include "launcher/measure/doctor/doctor_report.h"
#include "launcher/measure/doctor/rank_facts.h"
#include "runtime/process/core_watch.h"

namespace lockstep::launcher {

/// The state that stages read and add to. The rest is borrowed.
struct DoctorRank {
  const DoctorCommand& command;
  group::Member& member;
  model::Plan plan{};              // places, placement and threads, from "places" on
  std::vector<RankFacts> facts{};  // by rank, from "places" on
  DoctorReport report{};           // complete on rank 0 only
  process::CoreWatch watch{};      // from the start on

  int rank() const { return member.rank(); }
  int size() const { return member.size(); }
  bool has_threads() const { return member.group().ranks_are_threads(); }  // ranks are threads of one process
  bool passed(const char* name) const;                                     // an earlier check did not fail
};

/// Every rank runs it and gets the same check, or an error. A rank that fails alone shares the failure by
/// `all_succeeded` before it returns. @collective @blocking
using RunStage = Result<Check> (*)(DoctorRank& rank);

struct Stage {
  const char* name;
  RunStage run;            // null: done before there is a group
  double deadlines = 1.0;  // its time limit as a multiple of --stage-deadline-s
  bool ends_it = false;    // its failure makes later stages useless
};

/// All stages in running order. The first kEarlyStages need no group.
std::span<const Stage> stages();
inline constexpr int kLaunchStage = 0, kMpiStage = 1, kEarlyStages = 2;

/// A check that did not run, with the reason.
Check skipped_check(std::string why);

Result<Check> run_places(DoctorRank& rank);
Result<Check> run_program(DoctorRank& rank);
Result<Check> run_hosts(DoctorRank& rank);
Result<Check> run_limits(DoctorRank& rank);
Result<Check> run_devices(DoctorRank& rank);
Result<Check> run_clocks(DoctorRank& rank);
Result<Check> run_shared_memory(DoctorRank& rank);
Result<Check> run_control_plane(DoctorRank& rank);
Result<Check> run_loopback(DoctorRank& rank);
Result<Check> run_shm(DoctorRank& rank);
Result<Check> run_mpi(DoctorRank& rank);
Result<Check> run_two_level(DoctorRank& rank);
Result<Check> run_model(DoctorRank& rank);
Result<Check> run_machine(DoctorRank& rank);

}  // namespace lockstep::launcher
