// Requests, tokens, answers and states of an engine to and from the protocol's structs. Private to this folder.
#pragma once

#include <vector>

#include "engine/rpc/engine.capnp.h"
#include "launcher/serve/engine/engine.h"
#include "runtime/core/result.h"

namespace lockstep::serve {

namespace wire = rpc::wire;

/// `kPeerLost` where the engine has ended, not the request alone. A kind that this version does not have is
/// `kInternal`.
Error error_of(wire::Failure::Reader failure);
std::vector<EngineToken> tokens_of(capnp::List<wire::Token>::Reader from);
std::vector<EngineAnswer> answers_of(capnp::List<wire::Answer>::Reader from);
Result<std::vector<EngineScore>> scores_of(wire::Scored::Reader from);
EngineFacts facts_of(wire::Facts::Reader from);
EngineStatus status_of(wire::Status::Reader from);
/// Without tags, which only this process knows.
EngineActivity activity_of(wire::Activity::Reader from);

void write_request(const EngineRequest& from, wire::Request::Builder to);

}  // namespace lockstep::serve
