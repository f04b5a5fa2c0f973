// Checks of a request against an engine's limits, and its token budget. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/model.h"
#include "lockstep/options.h"
#include "lockstep/request.h"

namespace lockstep::requests {

/// Limits that an engine's graphs and slots set.
struct Limits {
  int64_t slots = 1;
  int64_t capacity = 1;
  Choosers choosers = Choosers::kAllowed;
  int64_t drafts = 0;
  int64_t scored_top = -1;  // largest `top` of a score; −1: the engine does not score texts
  PromptEmbeddings embeddings = PromptEmbeddings::kOff;
};

/// Whether a request has processors, criteria or choosers of its caller.
bool has_own_code(const Request& request);

/// Whether the host chooses the tokens, because of the request's options or its caller's objects.
bool is_host_chosen(const Request& request);

/// The most new tokens of an answer. Fails with `kInvalidArgument` when they do not fit a slot.
Result<int32_t> budget_of(const Request& request, const Model& model, int64_t capacity);

/// Fails with `kInvalidArgument` for a request that no slot can hold, with `kUnsupported` for one that an engine with
/// these limits cannot serve, naming the option.
Result<void> check(const Request& request, const Model& model, const Limits& limits);

/// Checks that an engine can score `ids` with the `top` likeliest tokens. Fails as `check`.
Result<void> check_text(std::span<const int32_t> ids, int64_t top, const Model& model, const Limits& limits);

}  // namespace lockstep::requests
