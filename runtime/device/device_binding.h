// Which of the devices that it sees a rank computes on. Launchers differ in what they show to a process: all devices of
// the host, or only the one that the task was given, which is then always number 0. One rule covers both:
//
//   one device visible    →  ordinal 0
//   several               →  ordinal local_rank mod count
//
//   CUDA_VISIBLE_DEVICES    unset (4 installed)        2 | 3 (a task each)      0,1
//   local rank 0, 1         0 | 1                      0 | 0: devices 2, 3      0 | 1
//
// For backends whose devices are numbered by a library, which applies such a variable itself.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/device/rank_place.h"

namespace lockstep::device {

/// May two ranks compute on one device?
enum class DeviceSharing { kRefuse, kAllow };

/// What one rank sees. `identities` tell devices apart on one host whatever ordinal they have: a UUID or PCI address,
/// since a container may number its only device 0 in every task.
struct RankDevices {
  std::vector<std::string> identities;  // by ordinal
};

/// Element r: the ordinal of rank r's device, chosen among `devices[r]` by its `places[r]`. Pure. Fails with
/// `kFailedPrecondition` when a rank sees none, or when two ranks of a host get one device under `kRefuse`; the message
/// names the ranks, the device and `variable` ("CUDA_VISIBLE_DEVICES").
Result<std::vector<int>> bind_devices(std::span<const RankPlace> places, std::span<const RankDevices> devices,
                                      DeviceSharing sharing, std::string_view variable);

}  // namespace lockstep::device
