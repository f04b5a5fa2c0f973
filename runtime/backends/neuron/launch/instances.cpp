#include "runtime/backends/neuron/launch/instances.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "runtime/core/check.h"

namespace lockstep::neuron {
namespace {

constexpr Bytes kGiB(int64_t{1} << 30);

// Degrees: libraries/nxd-inference/developer_guides/feature-guide.rst; cores and memory: the instances' pages; one
// instance on inf2: tools/neuron-sys-tools/nccom-test.rst, all of aws-neuron/aws-neuron-sdk (SDK 2.32).
const std::array<InstanceFamily, 3>& families() {
  static const std::array<InstanceFamily, 3> kFamilies{{
      {Target::kTrn1, {1, 2, 8, 16, 32}, 32, "trn1.32xlarge", Bytes(16 * kGiB.value), true},
      {Target::kTrn2, {1, 2, 4, 8, 16, 32, 64}, 64, "trn2.48xlarge", Bytes(24 * kGiB.value), true},
      {Target::kInf2, {1, 2, 4, 8, 24}, 24, "inf2.48xlarge", Bytes(16 * kGiB.value), false},
  }};
  return kFamilies;
}

}  // namespace

const InstanceFamily& family_of(Target target) {
  const auto found = std::ranges::find(families(), target, &InstanceFamily::target);
  LOCKSTEP_CHECK(found != families().end(), static_cast<int>(target));
  return *found;
}

std::string why_not_degree(const InstanceFamily& family, int ranks, std::optional<int> hosts) {
  const bool are_several = hosts.value_or((ranks + family.most_cores - 1) / family.most_cores) > 1;
  const bool are_whole_instances = are_several && family.between_hosts && ranks % family.degrees.back() == 0;
  if (are_whole_instances || std::ranges::find(family.degrees, ranks) != family.degrees.end()) return "";
  return fmt::format("found {} ranks on {}, expected {} (the degrees that AWS documents)", ranks,
                     to_string(family.target), fmt::join(family.degrees, ", "));
}

Result<std::vector<std::string>> check_instances(const InstanceFamily& family,
                                                 std::span<const device::RankPlace> places, device::Degrees degrees) {
  std::vector<std::string> warnings;
  std::set<int> hosts;
  for (const device::RankPlace& place : places) hosts.insert(place.node);
  if (hosts.size() > 1 && !family.between_hosts) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format(
            "[runtime/backends/neuron] --neuron-target: found {} hosts on {}, expected one: its collectives do not "
            "leave an instance; start all ranks on one host, or use trn1 or trn2",
            hosts.size(), to_string(family.target))};
  }
  for (const device::RankPlace& place : places) {
    if (place.local_size <= family.most_cores) continue;
    return Error{
        ErrorKind::kFailedPrecondition,
        fmt::format(
            "[runtime/backends/neuron] --neuron-target: found {} ranks on {}, expected at most {}, the cores of a {}; "
            "start fewer there",
            place.local_size, place.host, family.most_cores, family.largest)};
  }
  const std::string why_not = why_not_degree(family, static_cast<int>(places.size()), static_cast<int>(hosts.size()));
  if (why_not.empty()) return warnings;
  if (degrees == device::Degrees::kDocumented) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[runtime/backends/neuron] --neuron-target: {}; start as many ranks, or try it with --no-strict",
                    why_not)};
  }
  warnings.push_back(fmt::format("--neuron-target: {}; going on, as --no-strict asks", why_not));
  return warnings;
}

Result<void> check_core_memory(const InstanceFamily& family, const MemoryEstimate& estimate) {
  if (estimate.total() <= family.core_memory) return ok();
  return Error{
      ErrorKind::kResourceExhausted,
      fmt::format(
          "[runtime/backends/neuron] --neuron-target: found {}, expected at most {}, the memory of a core of {}; use "
          "more ranks, or lower --max-seq-len, --batch-size or --prefill-chunk",
          to_string(estimate), to_string(family.core_memory), to_string(family.target))};
}

}  // namespace lockstep::neuron
