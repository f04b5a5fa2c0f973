// How much a template may do: a template comes with a model, from anybody.
#pragma once

#include <cstddef>

#include "runtime/text/jinja/value.h"

namespace lockstep::jinja {

/// Counts down; throws `RenderFailure` at the end.
class Budget {
 public:
  /// One step, or one for each of `count` elements.
  void step(size_t count = 1) { take(steps_, count, "takes too many steps"); }
  /// A string of `size` bytes was made.
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
