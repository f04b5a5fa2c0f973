// The plan of a rank, made before weights are read: partition, sizes, placement.
//
//   Model, EngineOptions ──► plan_model: partition, static sizes ──► place: cores, threads, devices ──► agreement
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/group/member.h"
#include "engine/group/placement.h"
#include "lockstep/model.h"
#include "lockstep/options.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/device/backend_driver.h"
#include "runtime/generation/prompt_lookup.h"
#include "shards/partition/partition.h"
#include "shards/shard_graphs.h"

namespace lockstep::model {

/// A model divided between ranks.
struct DividedModel {
  partition::Partition partition;
  std::string warning;  // the mode of key/value heads, and why it differs from the requested one; empty: as requested
};

/// Divides `spec` for `slots` sequences (none: not known yet). Pure. Fails as `make_partition`.
Result<DividedModel> divide_model(const partition::Options& options, const checkpoint::ModelSpec& spec, int ranks,
                                  std::optional<int64_t> slots);

/// The static sizes of a shard of `slots` slots of `capacity` tokens, with the chunk and buckets of `options`. Pure.
/// Fails with `kInvalidArgument` for buckets that do not fit the capacity.
Result<shards::ShardOptions> shard_options(const EngineOptions& options, DType dtype, int64_t slots, int64_t capacity);

/// One model, divided and sized.
struct ModelPlan {
  checkpoint::ModelSpec spec;
  partition::Partition partition;
  shards::ShardOptions shard;
  std::optional<std::filesystem::path> checkpoint;  // the model's directory; empty: weights are pseudo-random
};

/// The whole plan of one rank.
struct Plan {
  ModelPlan model;
  std::optional<ModelPlan> draft;                  // a model that drafts for the model
  std::optional<generation::PromptLookup> lookup;  // or the lookup that drafts without a model
  std::vector<std::string> warnings;               // for the user, once
  std::string identity;                            // identity_of the engine; rank 0 alone

  std::vector<device::RankPlace> places;
  group::Placement placement;  // with threads and devices
  group::Placement launch;     // of all replicas' ranks, with threads
  device::DevicePlan devices;
  int threads = 1;
  std::vector<int> cores;        // one hardware thread for each compute thread; empty: not bound
  std::vector<int> main_thread;  // hardware threads of the thread that runs the rank's steps; empty: not bound
};

/// Plans model, draft model and static sizes for `ranks` ranks. Reads the config of the draft model. Fails with
/// `kInvalidArgument` for sizes that the model cannot serve.
Result<Plan> plan_models(const Model& model, const EngineOptions& options, int ranks,
                         const device::Capabilities& backend);

/// Finds the hosts of the ranks and the threads of each, without judging them. @collective @blocking
Result<void> place_ranks(group::Member& member, const EngineOptions& options, const device::Capabilities& backend,
                         Plan& plan);

/// As `place_ranks`, with devices; rank 0 warns of findings that cost speed. Fails on every rank for a placement that
/// the backend rejects. @collective @blocking
Result<void> place(group::Member& member, const EngineOptions& options, const device::BackendDriver& driver,
                   Plan& plan);

/// The facts that must be the same on every rank before weights are read, one a line.
std::string statement_of(const Plan& plan, const EngineOptions& options, const device::BackendDriver& driver);

/// Compares the statement: an error names the line that differs, and the keys in which `config` (config.json) differs.
/// @collective @blocking
Result<void> agree_on_plan(group::Member& member, const std::string& statement, const std::filesystem::path& config);

/// Makes the plan by the functions above. @collective @blocking
Result<Plan> make_plan(group::Member& member, const Model& model, const EngineOptions& options,
                       const device::BackendDriver& driver);

/// The facts about this rank that a driver receives.
device::RankSite site_of(group::Member& member, const EngineOptions& options, const Plan& plan);

}  // namespace lockstep::model
