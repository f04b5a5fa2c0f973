// Assigns each rank one of its visible devices.
//
// Launchers show a process either all devices of the host or only the task's device, which then has number 0. One rule
// covers both:
//
//   one device visible    →  ordinal 0
//   several               →  ordinal local_rank mod count
//
//   CUDA_VISIBLE_DEVICES    unset (4 installed)        2 | 3 (a task each)      0,1
//   local rank 0, 1         0 | 1                      0 | 0: devices 2, 3      0 | 1
//
// For backends with devices numbered by a library that applies such a variable itself.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/device/rank_place.h"

namespace lockstep::device {

/// Whether two ranks may compute on one device.
enum class DeviceSharing { kRefuse, kAllow };

/// The devices visible to one rank. `identities` distinguish the devices of one host independently of ordinals: a UUID
/// or PCI address, because every container may number its only device 0.
struct RankDevices {
  std::vector<std::string> identities;  // by ordinal
};

/// Element r: the ordinal of rank r's device, chosen from `devices[r]` by its `places[r]`. Pure. Fails with
/// `kFailedPrecondition` when a rank sees no device, or when two ranks of a host get one device under `kRefuse`; the
/// message names the ranks, the device and `variable` ("CUDA_VISIBLE_DEVICES").
Result<std::vector<int>> bind_devices(std::span<const RankPlace> places, std::span<const RankDevices> devices,
                                      DeviceSharing sharing, std::string_view variable);

}  // namespace lockstep::device
