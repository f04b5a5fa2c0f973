// Fuzzes suspended requests and engine options, which one engine writes for another: they are refused, or read exactly.
//
// Input: a byte that chooses the kind, and the JSON text of the requests or of the options.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/options_text.h"
#include "engine/requests/history.h"
#include "runtime/core/check.h"

using namespace lockstep;

namespace {

void check_requests(std::string_view text) {
  const std::string engine = "0123456789abcdef";
  const auto requests = requests::parse_suspended(text, engine);
  if (!requests.has_value()) {
    LOCKSTEP_CHECK(!requests.error().message.empty());
    return;
  }
  const auto again = requests::parse_suspended(requests::to_text(requests.value(), engine), engine);
  LOCKSTEP_CHECK(again.has_value(), again.error().message);
  LOCKSTEP_CHECK(again.value().size() == requests.value().size(), again.value().size());
  for (const requests::SuspendedRequest& request : requests.value()) {
    for (const auto& answer : request.answers) {
      if (answer.reason) LOCKSTEP_CHECK(!to_string(*answer.reason).empty());
    }
  }
}

void check_options(const std::string& text) {
  const auto options = parse_engine_options(text);
  if (!options.has_value()) {
    LOCKSTEP_CHECK(options.error().kind == ErrorKind::kInternal, options.error().message);
    return;
  }
  const auto again = parse_engine_options(to_text(options.value()));
  LOCKSTEP_CHECK(again.has_value(), again.error().message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  data[0] % 2 == 0 ? check_requests(text) : check_options(std::string(text));
  return 0;
}
