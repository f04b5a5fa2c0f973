// Copies of a value with one changed field each, for tests of complete comparisons.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/core/field_list.h"
#include "runtime/core/ids.h"

namespace lockstep {

/// The smallest change of a value: the next number, another truth, one element more.
inline void change(bool& value) { value = !value; }
inline void change(std::string& value) { value += "x"; }
template <typename T>
requires std::is_integral_v<T>
void change(T& value) { ++value; }
template <typename T>
requires std::is_floating_point_v<T>
void change(T& value) {
  // Not a subnormal number, which CAF 0.17 sends as 0.
  value = value == 0 ? std::numeric_limits<T>::min() : std::nextafter(value, std::numeric_limits<T>::max());
}
template <typename T>
requires std::is_enum_v<T>
void change(T& value) { value = static_cast<T>(static_cast<std::underlying_type_t<T>>(value) + 1); }
template <typename Tag, typename Rep>
void change(StrongId<Tag, Rep>& value) {
  ++value.value;
}
template <typename T>
void change(std::vector<T>& value) {
  value.emplace_back();
}
template <typename T>
void change(std::optional<T>& value) {
  if (value) {
    value.reset();
  } else {
    value.emplace();
  }
}

namespace detail {

/// Changes the field that `index` counts down to, those of structs inside included; the name of it, if it was reached.
template <HasFields T>
std::optional<std::string> change_field(T& value, size_t& index) {
  std::optional<std::string> changed;
  for_each_field(value, [&](std::string_view name, auto& field) {
    if (changed) return;
    if constexpr (HasFields<std::remove_reference_t<decltype(field)>>) {
      if (const auto inner = change_field(field, index)) changed = fmt::format("{}.{}", name, *inner);
    } else if (index-- == 0) {
      change(field);
      changed = name;
    }
  });
  return changed;
}

}  // namespace detail

/// Calls `check(name, copy)` for every field of `value`, "outer.inner" for those of nested structs.
template <HasFields T, typename Check>
void for_each_changed_field(const T& value, Check&& check) {
  for (size_t i = 0;; ++i) {
    T copy = value;
    size_t index = i;
    const auto name = detail::change_field(copy, index);
    if (!name) return;
    check(*name, copy);
  }
}

}  // namespace lockstep
