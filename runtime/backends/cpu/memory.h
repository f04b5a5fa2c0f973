// Anonymous memory of the operating system: zeroed, physically allocated on first touch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/core/result.h"

namespace lockstep::cpu {

enum class Pages {
  kHuge,      // requests 2 MiB pages: for memory that is filled once and read all the time
  kOnDemand,  // 4 KiB pages, allocated on demand: for memory that fills as tokens arrive
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
  /// Bytes physically allocated now.
  int64_t resident() const;
  /// Returns all of it to the system; it is zero again afterwards.
  void release();

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace lockstep::cpu
