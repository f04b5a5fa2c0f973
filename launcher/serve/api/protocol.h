// One protocol: how it reads a body and refuses one. Adding a protocol adds a row to the routes of api.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "launcher/serve/api/body_field.h"
#include "launcher/serve/api/errors.h"
#include "launcher/serve/api/generation.h"
#include "launcher/serve/api/model_text.h"
#include "launcher/serve/http/exchange.h"

namespace lockstep::serve {

/// What a protocol knows besides the body. Fixed before the body is read.
struct ReadContext {
  std::string model;       // the id that clients use
  std::string request_id;  // for ids in the answer
  int64_t created = 0;     // Unix time
  int64_t capacity = 0;    // tokens of a prompt and its answer
  int64_t vocabulary = 0;
  uint64_t fresh_seed = 0;    // for a request that names none
  size_t most_choices = 128;  // prompts × answers of a request
  const ModelText* text = nullptr;
};

/// A request for the engine and the writer of its answer.
struct ReadRequest {
  Generation generation;
  std::unique_ptr<ProtocolWriter> writer;
};

/// Stateless; its functions run on any thread.
class Protocol {
 public:
  virtual ~Protocol() = default;

  /// A response at once, for bodies that need no engine, or a request.
  using Outcome = std::variant<HttpResponse, ReadRequest>;
  virtual ApiResult<Outcome> read(const BodyField& body, const ReadContext& context) const = 0;
  /// The response to a refused request.
  virtual HttpResponse refuse(const ApiError& error) const = 0;
};

}  // namespace lockstep::serve
