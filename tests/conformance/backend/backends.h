// The backends of the suite. A new backend needs one entry in backends.cpp.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/core/dtype.h"
#include "runtime/device/backend.h"

namespace lockstep::conformance {

struct BackendUnderTest {
  std::string name;  // letters, digits and _
  std::function<Result<std::unique_ptr<device::Backend>>(int threads)> make;
  bool allocates_in_run = false;  // the oracle may; a backend for users may not
  std::vector<DType> rounds_weights_of_attention =
      {};  // over caches of these types: results are near, not rounded once
};

/// The oracle itself.
const BackendUnderTest& reference_backend();

/// False with LOCKSTEP_WITHOUT_REFERENCE set, which scripts/gpu does: its archive lacks libtorch. The scalar model and
/// comparisons of bits remain.
bool compares_with_reference();

/// Every backend that this machine can run, the reference first.
const std::vector<BackendUnderTest>& backends_under_test();

/// For GoogleTest's messages.
inline void PrintTo(const BackendUnderTest& backend, std::ostream* stream) { *stream << backend.name; }

}  // namespace lockstep::conformance
