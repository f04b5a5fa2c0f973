// Strong types for ids and sizes.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <string>

namespace lockstep {

/// An integer that only compares and converts with the same type. `Tag` names it.
template <typename Tag, typename Rep>
struct StrongId {
  Rep value = 0;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}

  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
};

/// A process or thread of the tensor-parallel group, counted from 0.
using RankId = StrongId<struct RankTag, int32_t>;

/// A row of the static KV cache that one sequence occupies, counted from 0.
using SlotId = StrongId<struct SlotTag, int32_t>;

/// One prompt and its answer; unique in a session.
using RequestId = StrongId<struct RequestTag, int64_t>;

/// An amount of memory.
struct Bytes {
  int64_t value = 0;

  constexpr Bytes() = default;
  constexpr explicit Bytes(int64_t v) : value(v) {}

  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;
  constexpr Bytes& operator+=(Bytes other) {
    value += other.value;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.value + b.value); }
};

/// "1.50 GiB", "12 B".
std::string to_string(Bytes bytes);

}  // namespace lockstep

template <typename Tag, typename Rep>
struct fmt::formatter<lockstep::StrongId<Tag, Rep>> : fmt::formatter<Rep> {
  template <typename Context>
  auto format(lockstep::StrongId<Tag, Rep> id, Context& context) const {
    return fmt::formatter<Rep>::format(id.value, context);
  }
};
