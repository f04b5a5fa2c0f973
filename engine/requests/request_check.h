// Whether an engine can serve a request, and for how many tokens. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/model.h"
#include "lockstep/options.h"
#include "lockstep/request.h"

namespace lockstep::requests {

/// What an engine's graphs and slots can serve.
struct Limits {
  int64_t slots = 1;
  int64_t capacity = 1;
  Choosers choosers = Choosers::kAllowed;
  int64_t drafts = 0;
  int64_t scored_top = -1;  // likeliest tokens that a score names, at most; −1: texts are not scored
};

/// Whether a request has code of its caller's.
bool has_own_code(const Request& request);

/// Whether tokens are chosen on the host: by its options, or by code of the caller's.
bool is_host_chosen(const Request& request);

/// The most new tokens of an answer. Fails with `kInvalidArgument` when they do not fit a slot.
Result<int32_t> budget_of(const Request& request, const Model& model, int64_t capacity);

/// Fails with `kInvalidArgument` for a request that no slot can hold, with `kUnsupported` for one that an engine with
/// these limits cannot serve, naming the option.
Result<void> check(const Request& request, const Model& model, const Limits& limits);

/// Whether an engine can score `ids` and name the `top` likeliest tokens: fails likewise.
Result<void> check_text(std::span<const int32_t> ids, int64_t top, const Model& model, const Limits& limits);

}  // namespace lockstep::requests
