// The reference backend, for every list of backends.
#include "runtime/backends/reference/reference.h"

#include <cstdlib>

#include "tests/conformance/backend/backends.h"

namespace lockstep::conformance {

const BackendUnderTest& reference_backend() {
  static const BackendUnderTest kReference{
      "Reference", [](int threads) { return reference::make_backend({.threads = threads}); }, true};
  return kReference;
}

bool compares_with_reference() { return std::getenv("LOCKSTEP_WITHOUT_REFERENCE") == nullptr; }

}  // namespace lockstep::conformance
