// The options of this backend, the same in every build.
#pragma once

#include <span>

#include "runtime/device/backend_driver.h"

namespace lockstep::cuda {

std::span<const device::OptionRow> option_rows();

inline constexpr device::DeviceSigns kSigns{.noun = "GPU", .files = "nvidia", .variable = "CUDA_VISIBLE_DEVICES"};

}  // namespace lockstep::cuda
