// Exchange of device memory between ranks that do not see each other's: those of several hosts.
//
// The members of an exchange are some ranks of a group, one of every host. It moves bytes and never adds.
//
//   backend: kernels … │ all_gather, enqueued ───────────────► other hosts │ kernels that read what came │ …
//                      └ in the order of the device's stream, also while the stream is captured
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/device/communicator.h"

namespace lockstep::device {

/// One member's endpoint. Used by one thread. Outlives the captured work that uses it; the destructor never waits.
class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;

  /// Enqueues: `counts[m]` bytes of each member m, from its `src`, one after the other at `dst` of every member; both
  /// in device memory, not overlapping. Members make the same calls in the same order. Waits until the call is in the
  /// stream, not until it is done.
  /// @collective @blocking
  virtual Result<void> all_gather(const void* src, std::span<const int64_t> counts, void* dst, Stream stream) = 0;

  /// An error of enqueued work, which the device cannot report. Never waits.
  virtual Result<void> check() = 0;

  /// Ends enqueued work that waits for other members. The exchange is unusable afterwards. Never waits.
  virtual void abort() = 0;
};

/// What connects devices: the device of the calling thread with those of the other members.
struct DeviceConnection {
  std::filesystem::path library;  // that moves the bytes
  Communicator& communicator;     // of the whole group
  std::vector<int> members;       // ranks, this one among them, ascending by host; empty: this rank is no member
};

/// Null for a rank that is no member. Every rank of the communicator calls it. If one fails, all fail: the others with
/// that rank's error. @collective @blocking
using ConnectDevices = std::function<Result<std::unique_ptr<DeviceExchange>>(const DeviceConnection&)>;

}  // namespace lockstep::device
