// Time of steps on a device that works beside the host.
//
//   host     ── inputs ──┤ launch · · · waits · · · │ sampling ──┤
//   device               ├────── the step ────────┤
//                        └── device ──────────────┘└── after ──┘
#pragma once

#include "runtime/core/clock.h"

namespace lockstep::device {

/// Added up over runs; zeros where the host computes.
struct DeviceTime {
  Duration device{};  // of the device, by its own clock, from the launch on
  Duration after{};   // of the host, once it has seen the device's end

  DeviceTime& operator+=(const DeviceTime& other) {
    device += other.device;
    after += other.after;
    return *this;
  }
  friend DeviceTime operator-(const DeviceTime& a, const DeviceTime& b) {
    return {a.device - b.device, a.after - b.after};
  }
  friend bool operator==(const DeviceTime&, const DeviceTime&) = default;
};

}  // namespace lockstep::device
