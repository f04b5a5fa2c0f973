// Groups that share a launch ("replicas"): the W ranks of mpirun or srun form W / T groups of T consecutive ranks.
//
//   rank of the launch    0 1 │ 2 3 │ 4 5
//   replica               0   │ 1   │ 2
//   rank of its group     0 1 │ 0 1 │ 0 1
//
// A group counts its own ranks from 0. Exit records, log lines and injected faults, where processes are meant, count
// those of the launch. After the start replicas exchange nothing, so that none depends on another.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/group/hooks.h"
#include "lockstep/group.h"
#include "runtime/core/result.h"
#include "transport/bootstrap.h"
#include "transport/launch_environment.h"

namespace lockstep::group {

/// A group's place among those of its launch.
struct Replica {
  int index = 0;
  int count = 1;
  int first = 0;  // the launch's rank of the group's rank 0

  bool has_others() const { return count > 1; }
  friend bool operator==(const Replica&, const Replica&) = default;
};

/// The replica of a rank of the launch. Pure. Fails with `kInvalidArgument` for `ranks_per_replica` below 1, and with
/// `kFailedPrecondition` if it does not divide the launch's ranks.
Result<Replica> find_replica(int launch_rank, int launch_ranks, int ranks_per_replica);

/// What a group knows of its launch. Everything but the replica is empty where it is the only group.
struct Launch {
  Replica replica;
  std::unique_ptr<transport::Bootstrap> bootstrap;  // between all ranks of the launch
  std::vector<transport::RankPlace> places;         // of all ranks, as `places_of_job`
  std::string address;                              // of this host on the network between the launch's hosts
};

/// The places of `bootstrap`'s ranks, whose hosts have only the cores that belong to the job: those of other jobs are
/// not idle. @collective @blocking
Result<std::vector<transport::RankPlace>> places_of_job(transport::Bootstrap& bootstrap,
                                                        const transport::LaunchEnvironment& launch);

/// `error` of a group with its origin as a rank of the launch, whose process the message then names.
Error in_launch_ranks(Error error, const Replica& replica);

/// `error` of an exchange between all ranks of the launch as one of the group.
Error from_launch_ranks(Error error, const Replica& replica);

/// Hooks and options that are called with ranks of the group and call the given ones with those of the launch.
Hooks for_launch_ranks(Hooks hooks, const Replica& replica);
GroupOptions for_launch_ranks(GroupOptions options, const Replica& replica);

}  // namespace lockstep::group
