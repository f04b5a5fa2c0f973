// The sequences of one request in a session.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "actors/request.h"
#include "engine/requests/request_check.h"
#include "lockstep/model.h"
#include "lockstep/options.h"
#include "lockstep/request.h"
#include "runtime/core/clock.h"

namespace lockstep::requests {

/// The inputs of checking and starting requests. Everything is borrowed and outlives the engine.
struct Serving {
  const Model& model;
  const Clock& clock;
  const text::Tokenizer* tokenizer = nullptr;  // null: the model has none
  Limits limits;
  OnLoss on_loss = OnLoss::kFail;
};

/// One sequence of the session. It has several answers where beams return several sequences.
struct Part {
  actors::Request request;
  size_t first_answer = 0;
  size_t answers = 1;
  bool as_made = true;   // false: tokens are known at the end only (beam search)
  bool follows = false;  // its chooser follows tokens that another one has chosen

  /// Whether another session restarts it from its prompt, because the state of its chooser does not follow from tokens.
  bool restarts() const { return request.chooser != nullptr && !follows; }
};

/// Fails with `kInvalidArgument` and `kUnsupported` for options that this engine cannot serve, naming the option.
Result<std::vector<Part>> parts_of(const Request& request, const Serving& serving);

/// A new chooser for `part` of `request`, in its initial state; the caller's chooser if the request has one.
Result<std::shared_ptr<TokenChooser>> chooser_of(const Request& request, const Part& part, const Serving& serving);

}  // namespace lockstep::requests
