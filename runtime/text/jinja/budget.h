// Limits on a template's work: templates are untrusted, because they come with a model.
#pragma once

#include <cstddef>

#include "runtime/text/jinja/value.h"

namespace lockstep::jinja {

/// Counts down; throws `RenderFailure` at zero.
class Budget {
 public:
  /// Counts one step, or one for each of `count` elements.
  void step(size_t count = 1) { take(steps_, count, "takes too many steps"); }
  /// Counts a new string of `size` bytes.
  void bytes(size_t size) { take(bytes_, size, "makes too much text"); }

 private:
  static void take(size_t& left, size_t amount, const char* what) {
    if (amount > left) throw RenderFailure(what);
    left -= amount;
  }

  size_t steps_ = 5'000'000;
  size_t bytes_ = size_t{256} << 20;
};

}  // namespace lockstep::jinja
