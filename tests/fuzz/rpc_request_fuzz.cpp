// Fuzzes requests of the RPC protocol: a message of any bytes is refused, or becomes a request as a client could send
// it.
#include <capnp/serialize.h>
#include <kj/array.h>
#include <kj/exception.h>

#include <algorithm>
#include <cstdint>

#include "engine/rpc/wire.h"
#include "tests/fuzz/tiny_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::rpc;
  static const lockstep::Model model = lockstep::fuzz::tiny_model();
  auto words = kj::heapArray<capnp::word>(size / sizeof(capnp::word));
  kj::ArrayPtr<kj::byte> bytes = words.asBytes();
  std::copy_n(data, bytes.size(), bytes.begin());
  try {
    capnp::FlatArrayMessageReader message(words, {.traversalLimitInWords = 1 << 16});
    const auto request = read_request(message.getRoot<wire::Request>(), model);
    if (request.has_value() && request.value().prompt.ids.empty()) __builtin_trap();
  } catch (const kj::Exception&) {  // as the RPC system refuses a damaged message
  }
  return 0;
}
