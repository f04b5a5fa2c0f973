// Fuzzes the reading of HTTP requests: whatever the bytes, the requests and the refusal are the same when they arrive
// at once and in pieces, whose size is the first byte. A request that is read keeps the rules that the handler relies
// on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/http/request_reader.h"
#include "runtime/core/check.h"

using namespace lockstep;
using namespace lockstep::serve;

namespace {

constexpr HttpLimits kLimits{.head_bytes = 400, .uri_bytes = 100, .body_bytes = 200};

void check_request(const HttpRequest& request) {
  LOCKSTEP_CHECK(!request.method.empty());
  LOCKSTEP_CHECK(request.path == "*" || request.path.starts_with("/"));
  LOCKSTEP_CHECK(request.path.find('\0') == std::string::npos);
  LOCKSTEP_CHECK(request.body.size() <= kLimits.body_bytes, request.body.size());
  const auto has_name = [&](std::string_view name) {
    return std::ranges::count_if(request.headers, [&](const auto& header) { return header.first == name; });
  };
  LOCKSTEP_CHECK(has_name("content-length") + has_name("transfer-encoding") <= 1);
  LOCKSTEP_CHECK(has_name("host") <= 1);
  for (const auto& [name, value] : request.headers) {
    LOCKSTEP_CHECK(std::ranges::none_of(name, [](char c) { return c <= ' ' || (c >= 'A' && c <= 'Z'); }));
    LOCKSTEP_CHECK(value.find_first_of("\r\n") == std::string::npos);
  }
}

struct Reading {
  std::vector<std::string> requests;
  int refusal = 0;

  friend bool operator==(const Reading&, const Reading&) = default;
};

Reading read(std::string_view bytes, size_t piece) {
  Reading reading;
  RequestReader reader(kLimits);
  auto state = RequestReader::State::kIncomplete;
  for (size_t at = 0; at < bytes.size() && state != RequestReader::State::kRefused; at += piece) {
    reader.append(bytes.substr(at, piece));
    while ((state = reader.advance()) == RequestReader::State::kComplete) {
      const HttpRequest request = reader.next_request().request;
      check_request(request);
      reading.requests.push_back(request.method + ' ' + request.path + '?' + request.query + '\n' + request.body);
    }
  }
  if (state == RequestReader::State::kRefused) reading.refusal = reader.refusal().status;
  return reading;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes = std::string_view(reinterpret_cast<const char*>(data), size).substr(1);
  const Reading at_once = read(bytes, bytes.size() + 1);
  const Reading in_pieces = read(bytes, 1 + data[0] % 64);
  LOCKSTEP_CHECK(at_once.requests == in_pieces.requests, at_once.requests.size(), in_pieces.requests.size());
  LOCKSTEP_CHECK(at_once.refusal == in_pieces.refusal, at_once.refusal, in_pieces.refusal);
  return 0;
}
