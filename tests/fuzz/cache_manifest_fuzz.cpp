// Fuzzes descriptions of compiled artifacts: one is refused with a message, or its value is written and read the same.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/cache/key.h"
#include "runtime/cache/manifest.h"
#include "runtime/cache/remote_address.h"
#include "runtime/core/check.h"

using namespace lockstep;
using namespace lockstep::cache;

namespace {

void check_address(const std::string& url) {
  const auto address = remote_address(url, {});
  if (!address.has_value()) {
    LOCKSTEP_CHECK(address.error().kind == ErrorKind::kInvalidArgument, address.error().message);
    return;
  }
  LOCKSTEP_CHECK(address.value().base.starts_with("http"), address.value().base);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 200) check_address({reinterpret_cast<const char*>(data), size});
  const auto manifest = decode_manifest(std::as_bytes(std::span(data, size)));
  if (!manifest.has_value()) {
    LOCKSTEP_CHECK(manifest.error().kind == ErrorKind::kInvalidArgument, manifest.error().message);
    return 0;
  }
  const auto again = decode_manifest(encode(manifest.value()));
  LOCKSTEP_CHECK(again.has_value());
  const bool is_number = manifest.value().took_s == manifest.value().took_s;
  LOCKSTEP_CHECK(!is_number || again.value() == manifest.value());
  LOCKSTEP_CHECK(address_of(again.value().key) == address_of(manifest.value().key));
  LOCKSTEP_CHECK(differences(again.value().key, manifest.value().key).empty());
  static_cast<void>(unknown_fields(manifest.value().key));
  return 0;
}
