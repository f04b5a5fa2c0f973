// Answers to a browser's question whether a page of another origin may send a request.
#pragma once

#include <optional>
#include <string_view>

#include "launcher/serve/http/exchange.h"

namespace lockstep::serve {

/// The response to a preflight (OPTIONS with Access-Control-Request-Method) if `origin` is set; the server adds the
/// allowed origin, as to all responses.
std::optional<HttpResponse> preflight_response(std::string_view origin, const HttpRequest& request);

}  // namespace lockstep::serve
