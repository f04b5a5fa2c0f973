// Pure judgements of the ranks' facts; every rank judges alike.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/group/placement.h"
#include "launcher/measure/doctor/doctor.h"
#include "launcher/measure/doctor/doctor_report.h"
#include "launcher/measure/doctor/rank_facts.h"
#include "transport/launch_environment.h"

namespace lockstep::launcher {

/// One process's facts about its launch before MPI is started.
struct LaunchFacts {
  transport::LaunchEnvironment environment;
  Launch launch = Launch::kMpi;
  std::optional<int> tp;      // as the user gave it
  std::string library;        // "Open MPI 4.1.4"
  bool in_slurm_job = false;  // in an allocation, started by any means
};

Check judge_launch(const LaunchFacts& facts);

/// "mpirun -n 4": the launcher words for a next command like this one; empty for threads and a single rank.
std::string launcher_words(const transport::LaunchEnvironment& environment, int ranks);

/// Judges the ranks' placement by the findings of placement.h, with the table of ranks.
Check judge_places(const group::Placement& placement);

// `facts` are by rank, in the order of `placement.ranks`.

/// Judges memory and cores of each host, and the limits of its container or job.
Check judge_hosts(const group::Placement& placement, std::span<const RankFacts> facts);
/// Judges ulimit -n and -l.
Check judge_limits(const group::Placement& placement, std::span<const RankFacts> facts);
Check judge_program(const group::Placement& placement, std::span<const RankFacts> facts);
Check judge_devices(const group::Placement& placement, std::span<const RankFacts> facts);
/// Judges whether /dev/shm of each host with several ranks has enough space for a communicator.
Check judge_shm_space(const group::Placement& placement, std::span<const RankFacts> facts);
/// Bytes of shared memory for a communicator between `ranks` ranks of one host.
int64_t shm_need(int ranks);

/// `seconds[r]`: rank r's wall clock minus rank 0's.
Check judge_clocks(const group::Placement& placement, std::span<const double> seconds);

/// One rank's findings about a model's folder.
struct ModelFacts {
  std::string problem;                                 // why it cannot be read; empty: it can
  std::vector<std::pair<std::string, int64_t>> files;  // names and bytes, by name
  int64_t sample_bytes = 0;                            // bytes read to test access and speed
  double sample_seconds = 0.0;
};
Check judge_model(const group::Placement& placement, std::span<const ModelFacts> facts, std::string_view folder);

/// Judges the machine's limits and what a hypervisor took while they were measured; `report` has `limits`, and those of
/// every rank.
Check judge_machine(const DoctorReport& report);

/// The machine for --json.
std::vector<HostLine> host_lines(const group::Placement& placement, std::span<const RankFacts> facts);
std::vector<RankLine> rank_lines(const group::Placement& placement);

}  // namespace lockstep::launcher
