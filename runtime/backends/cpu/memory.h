// Anonymous memory of the operating system: starts at zero, becomes physical when it is first touched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/core/result.h"

namespace lockstep::cpu {

enum class Pages {
  kHuge,      // asks for 2 MiB pages: for what is filled at once and read all the time
  kOnDemand,  // 4 KiB pages, nothing set aside: for what fills as tokens arrive
};

/// An owned mapping.
class Mapping {
 public:
  Mapping() = default;
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  /// Fails with `kResourceExhausted`; `what` names the use in the message.
  static Result<Mapping> create(int64_t bytes, Pages pages, const char* what);

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  /// Bytes that are physically there now.
  int64_t resident() const;
  /// Gives all of it back to the system; it starts at zero again.
  void release();

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace lockstep::cpu
