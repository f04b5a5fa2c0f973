#include "launcher/serve/http/cors.h"

#include <string>

namespace lockstep::serve {

std::optional<HttpResponse> preflight_response(std::string_view origin, const HttpRequest& request) {
  const bool asks =
      request.method == "OPTIONS" && request.header("origin") && request.header("access-control-request-method");
  if (origin.empty() || !asks) return std::nullopt;
  HttpResponse response{.status = 204, .content_type = {}};
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"}, {"Access-Control-Max-Age", "600"}};
  // All that the page asks for: keys travel in headers of several names, and clients add headers of their own.
  if (const auto names = request.header("access-control-request-headers")) {
    response.headers.emplace_back("Access-Control-Allow-Headers", std::string(*names));
  }
  return response;
}

}  // namespace lockstep::serve
