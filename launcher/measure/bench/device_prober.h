// The probes of a device as those of a host: the same passes, timed by the device.
#pragma once

#include <memory>

#include "runtime/core/clock.h"
#include "runtime/device/limits_probe.h"
#include "runtime/probe/probe.h"

namespace lockstep::launcher {

/// A sample begins when the host starts a pass, and lasts as long as the device says. The precision of products is the
/// probe's own. The clock outlives the prober.
std::unique_ptr<probe::Prober> make_device_prober(std::unique_ptr<device::LimitsProbe> probe, const Clock& clock);

}  // namespace lockstep::launcher
