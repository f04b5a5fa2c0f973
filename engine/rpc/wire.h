// Requests, tokens and answers to and from the structs of engine.capnp.
#pragma once

#include <span>
#include <vector>

#include "engine/rpc/engine.capnp.h"
#include "engine/rpc/outbox.h"
#include "lockstep/engine.h"

namespace lockstep::rpc {

/// A request as `model` serves it. Fails with `kInvalidArgument` or `kUnsupported`, naming the field.
Result<Request> read_request(wire::Request::Reader from, const Model& model);

void write_tokens(std::span<const SentToken> tokens, capnp::List<wire::Token>::Builder to);
void write_answers(std::span<const Answer> answers, capnp::List<wire::Answer>::Builder to);
/// `abandoned`: the engine has ended, not the request alone.
void write_failure(const Error& error, wire::Failure::Builder to, bool abandoned = false);
void write_scores(std::span<const TokenScore> scores, capnp::List<wire::Score>::Builder to);
/// `presence`: of each rank.
void write_status(const EngineCounters& counters, const trace::Activity& activity,
                  const std::vector<RankPresence>& presence, wire::Status::Builder to);
void write_activity(const trace::Activity& activity, const std::vector<RankPresence>& presence,
                    wire::Activity::Builder to);

std::vector<int32_t> read_ids(capnp::List<int32_t>::Reader from);

}  // namespace lockstep::rpc
