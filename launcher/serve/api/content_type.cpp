#include "launcher/serve/api/content_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace lockstep::serve {

bool is_json(const HttpRequest& request) {
  const auto type = request.header("content-type");
  if (!type) return !request.header("origin") && !request.header("sec-fetch-site");
  std::string lower(type->substr(0, type->find(';')));
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  while (lower.ends_with(' ')) lower.pop_back();
  return lower == "application/json" || lower == "text/json" || lower.ends_with("+json");
}

ApiError wrong_type(const HttpRequest& request) {
  return {.status = 415,
          .code = "unsupported_media_type",
          .message = fmt::format("found content type \"{}\", expected \"application/json\"; add the header "
                                 "Content-Type: application/json",
                                 request.header("content-type").value_or(""))};
}

}  // namespace lockstep::serve
