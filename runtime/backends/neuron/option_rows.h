// The options of the backend, in every build.
#pragma once

#include <span>

#include "runtime/device/backend_driver.h"

namespace lockstep::neuron {

/// Options of AWS's compiler, the Neuron runtime and the compile cache.
std::span<const device::OptionRow> option_rows();

inline constexpr device::DeviceSigns kSigns{
    .noun = "Neuron device", .files = "neuron", .variable = "NEURON_RT_VISIBLE_CORES"};

}  // namespace lockstep::neuron
