// One tensor-parallel degree of a plan: whether it works, who holds what, what it needs and how fast it should be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/device/backend_driver.h"
#include "shards/cost/prediction.h"
#include "shards/partition/partition.h"

namespace lockstep::launcher {

/// The least and the most of a quantity over the ranks.
struct Extent {
  int64_t least = 0;
  int64_t most = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// What `size` says of each rank's part.
Extent extent_of(const partition::Partition& partition, int64_t (*size)(const partition::RankPart&));

/// The key/value heads that more than one rank holds, rising.
std::vector<int64_t> shared_heads(const partition::Partition& partition);

/// A degree that works.
struct WorkingDegree {
  partition::Partition partition;
  std::vector<cost::RankMemory> memory;  // by rank
  int fullest = 0;                       // the rank that needs most
  double padding = 0;                    // share of the weights' memory that holds none: devices that pad ranks alike
  cost::Prediction predicted;
  std::string gqa_fallback;  // why `gqa` of the setting is not the partition's; empty: it is

  int64_t needed() const { return memory.at(static_cast<size_t>(fullest)).total().value; }
};

struct Degree {
  int ranks = 1;
  std::optional<WorkingDegree> working;
  std::string refusal;  // why not
};

/// The devices that a plan is made for.
struct PlannedDevices {
  const device::BackendDriver& driver;  // with rules; lives as long as the program
  device::OptionValues values;          // that name the device

  const device::DeviceRules& rules() const { return *driver.rules(); }
  device::DeviceFacts facts() const { return rules().facts(values); }
};

/// What all degrees have in common.
struct PlanSetting {
  checkpoint::ModelSpec spec;
  shards::ShardOptions shard;
  partition::Options partition;
  cost::Workload load;
  cost::MachineLimits machine;
  std::optional<int64_t> budget;          // bytes of a rank
  std::optional<PlannedDevices> devices;  // whose rules count; empty: any machine
};

bool fits(const PlanSetting& setting, const WorkingDegree& degree);

/// Looks at the degrees 1 to `most`. Fails where none works, with the error of degree 1.
Result<std::vector<Degree>> plan_degrees(const PlanSetting& setting, int most);

/// What to change so that a degree fits its budget: options and values.
std::string how_to_fit(const PlanSetting& setting, const WorkingDegree& degree);

/// Whether so much of a degree's memory is padding that it is not recommended: a tenth, where another one fits.
bool is_wasteful(const WorkingDegree& degree);

/// The degree to take, and why.
struct Best {
  int ranks = 0;  // 0: none fits
  std::string why;
};
Best best_of(const PlanSetting& setting, const std::vector<Degree>& degrees);

}  // namespace lockstep::launcher
