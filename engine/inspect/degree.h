// One tensor-parallel degree of a plan: partition, memory, predicted speed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/device/backend_driver.h"
#include "shards/cost/prediction.h"
#include "shards/partition/partition.h"

namespace lockstep::inspect {

/// Minimum and maximum of a quantity over the ranks.
struct Extent {
  int64_t least = 0;
  int64_t most = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// The extent of `size` over the ranks' parts.
Extent extent_of(const partition::Partition& partition, int64_t (*size)(const partition::RankPart&));

/// The key/value heads that several ranks hold, ascending.
std::vector<int64_t> shared_heads(const partition::Partition& partition);
/// The same in the layers with the spec's global heads.
std::vector<int64_t> shared_global_heads(const partition::Partition& partition);

/// A degree that works.
struct WorkingDegree {
  partition::Partition partition;
  std::vector<cost::RankMemory> memory;  // by rank
  int fullest = 0;                       // the rank that needs most memory
  double padding = 0;  // share of weight memory that holds padding, on devices that pad ranks to one size
  cost::Prediction predicted;
  std::string gqa_fallback;  // why `gqa` of the setting is not the partition's; empty: as requested

  const cost::RankMemory& of_fullest() const { return memory.at(static_cast<size_t>(fullest)); }
  int64_t needed() const { return of_fullest().total().value; }
};

struct Degree {
  int ranks = 1;
  std::optional<WorkingDegree> working;
  std::string refusal;  // why the degree does not work
};

/// The devices of a plan.
struct PlannedDevices {
  const device::BackendDriver& driver;  // has rules; lives as long as the program
  device::OptionValues values;          // the device's name

  const device::DeviceRules& rules() const { return *driver.rules(); }
  device::DeviceFacts facts(DType dtype, bool has_int8_weights) const {
    return rules().facts(values, {.dtype = dtype, .has_int8_weights = has_int8_weights, .bytes = std::nullopt});
  }
};

/// The settings shared by all degrees.
struct PlanSetting {
  checkpoint::ModelSpec spec;
  shards::ShardOptions shard;
  partition::Options partition;
  cost::Workload load;
  cost::MachineLimits machine;
  std::optional<int64_t> budget;          // bytes of a rank
  std::optional<PlannedDevices> devices;  // whose rules count; empty: any machine
  std::string device;                     // the name of theirs
};

bool fits(const PlanSetting& setting, const WorkingDegree& degree);

/// Examines the degrees 1 to `most`. Fails with the error of degree 1 if none works.
Result<std::vector<Degree>> plan_degrees(const PlanSetting& setting, int most);

/// Options and values with which a degree fits its budget.
std::string how_to_fit(const PlanSetting& setting, const WorkingDegree& degree);

/// Whether padding takes more than a tenth of a degree's memory, so that another one that fits is recommended.
bool is_wasteful(const WorkingDegree& degree);

/// The recommended degree, with the reason.
struct Best {
  int ranks = 0;  // 0: none fits
  std::string why;
};
Best best_of(const PlanSetting& setting, const std::vector<Degree>& degrees);

}  // namespace lockstep::inspect
