// The Neuron backend of a rank: its core, its environment, its runtime.
#pragma once

#include <memory>

#include "launcher/ranks/rank_setup.h"
#include "runtime/device/artifact_cache.h"
#include "runtime/device/backend.h"
#include "shards/shard_graphs.h"

namespace lockstep::launcher {

/// Looks at what can be known before weights are read, instances, degree, one process a rank, and puts the ranks' cores
/// into `plan`. Rank 0 warns. Fails alike on every rank, as `check_instances` and `assign_cores`.
/// @collective @blocking
Result<void> plan_neuron(const RankContext& context, Plan& plan);

/// Fails as `check_core_memory` when `graphs`, which hold the group's, need more than a core of the target has.
Result<void> check_neuron_memory(const RunOptions& run, const shards::ShardGraphs& graphs);

/// Chooses the place where the ranks meet, sets the environment, and starts the runtime. `cache`
/// outlives the backend. Fails alike on every rank. @collective @blocking
Result<std::unique_ptr<device::Backend>> make_neuron_backend(const RankContext& context, const Plan& plan,
                                                             device::ArtifactCache& cache);

}  // namespace lockstep::launcher
