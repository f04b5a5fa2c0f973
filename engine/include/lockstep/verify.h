// Verification of a model's weight files against the sums beside them.
//
//   lockstep::verify_model("DIR", {.action = lockstep::SumsAction::kWrite, .threads = 8});   // once
//   const auto verified = lockstep::verify_model("DIR", {.threads = 8});                      // fails where a bit
//   differs
//
// Every engine compares what its ranks read with these sums, if they are there, before the first token.
#pragma once

#include "runtime/checkpoint/verified_model.h"

namespace lockstep {

using checkpoint::SumsAction;
using checkpoint::VerifiedModel;
using checkpoint::verify_model;
using checkpoint::VerifyOptions;

}  // namespace lockstep
