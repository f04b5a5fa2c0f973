// Copies of checkpoints whose matrices have 4 or 8 bits.
//
//   const auto copy = lockstep::write_quantised_copy("DIR", "DIR-q4", {.bits = 4, .group = 32});
#pragma once

#include "runtime/checkpoint/quantised_copy.h"

namespace lockstep {

using checkpoint::CopyOptions;
using checkpoint::QuantisedCopy;
using checkpoint::QuantisedMatrix;
using checkpoint::write_quantised_copy;

}  // namespace lockstep
