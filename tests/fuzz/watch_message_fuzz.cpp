// Fuzzes the watch between ranks: frames of a stream do not depend on how it is cut, and their texts are read exactly.
//
// Input: a byte that chooses the cut, and the stream.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/check.h"
#include "transport/watch/wire.h"

using namespace lockstep;
using namespace lockstep::transport::watch;

namespace {

struct Stream {
  std::vector<std::string> frames;
  bool is_damaged = false;  // an invalid length has emptied the inbox

  friend bool operator==(const Stream&, const Stream&) = default;
};

void take_all(std::string& inbox, Stream& stream) {
  while (!inbox.empty()) {
    const auto frame = take_frame(inbox);
    stream.is_damaged = !frame && inbox.empty();
    if (!frame) return;
    stream.frames.push_back(static_cast<char>(frame->kind) + frame->text);
  }
}

Stream read(std::string_view bytes, size_t step) {
  Stream stream;
  std::string inbox;
  while (!bytes.empty() && !stream.is_damaged) {
    inbox += bytes.substr(0, step);
    bytes.remove_prefix(std::min(step, bytes.size()));
    take_all(inbox, stream);
  }
  return stream;
}

void check_text(const std::string& text) {
  const Error error = parse_error(text);
  const Error again = parse_error(to_text(error));
  LOCKSTEP_CHECK(again.kind == error.kind && again.origin_rank == error.origin_rank, text);
  if (const auto hello = parse_hello(text)) {
    const auto same = parse_hello(to_text(*hello));
    LOCKSTEP_CHECK(same && same->rank == hello->rank && same->size == hello->size && same->host == hello->host, text);
  }
  const auto endpoint = parse_endpoint(text);
  if (!endpoint.has_value()) {
    LOCKSTEP_CHECK(endpoint.error().kind == ErrorKind::kFailedPrecondition, endpoint.error().message);
    return;
  }
  const auto same = parse_endpoint(to_text(endpoint.value()));
  LOCKSTEP_CHECK(same.has_value() && same.value() == endpoint.value(), text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Stream whole = read(bytes, bytes.size() + 1);
  LOCKSTEP_CHECK(read(bytes, 1 + data[0] % 64) == whole, whole.frames.size());
  for (const std::string& frame : whole.frames) check_text(frame.substr(1));
  check_text(std::string(bytes));
  return 0;
}
