#include "launcher/serve/door/api_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/secret.h"

namespace lockstep::serve {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// KEY of "Bearer KEY"; the scheme's case does not count (RFC 9110, 11.1).
std::string_view bearer_of(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() <= kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    const char c = value[i];
    if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != kScheme[i]) return {};
  }
  return trimmed(value.substr(kScheme.size()));
}

}  // namespace

Result<ApiKeys> ApiKeys::parse(std::string_view text, std::string_view origin) {
  ApiKeys keys;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    if (!std::ranges::all_of(line, [](char c) { return c > ' ' && c <= '~'; })) {  // what every client can send
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[serve] {}: found another character in line {}, expected one key a line, of visible "
                               "ASCII characters without blanks; correct the line",
                               origin, number)};
    }
    keys.keys_.emplace_back(line);
  }
  if (keys.keys_.empty()) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[serve] {}: found no key, expected one a line; write one, or omit the option", origin)};
  }
  return keys;
}

bool ApiKeys::has(std::string_view key) const {
  bool found = false;
  for (const std::string& own : keys_) {
    found |= is_equal_secret(key, own);
  }
  return found;
}

bool ApiKeys::allow(const HttpRequest& request) const {
  if (keys_.empty()) return true;
  const auto authorization = request.header("authorization");
  const auto key = request.header("x-api-key");
  return (authorization && has(bearer_of(*authorization))) || (key && has(trimmed(*key)));
}

}  // namespace lockstep::serve
