#include "launcher/serve/api/reading.h"

#include "launcher/serve/api/body_field.h"

namespace lockstep::serve {
namespace {

ApiResult<Protocol::Outcome> read_body(const Protocol& protocol, const std::string& body, const ReadContext& context) {
  LOCKSTEP_TRY(const auto document, parse_body(body));
  return protocol.read(BodyField(*document), context);
}

}  // namespace

void Reading::read(const Protocol& protocol) {
  if (!is_abandoned_) outcome_ = read_body(protocol, body_, context_);
}

}  // namespace lockstep::serve
