// The list of a struct's fields, for generic code over them.
//
// Texts that ranks compare, messages between processes and hashes all use the same list.
//
//   struct Shade {
//     double red = 0.0;
//     int64_t depth = 1;
//   };
//   LOCKSTEP_FIELDS(Shade, red, depth);      a list without one of the fields does not compile
//
//   for_each_field(shade, [](std::string_view name, auto& field) { … });
//   fields_to_text(shade);                   "red 0.5\ndepth 1\n"
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace lockstep {

/// A field of a struct: its name and a reference to it.
template <typename T>
struct Field {
  std::string_view name;
  T& value;
};
template <typename T>
Field(std::string_view, T&) -> Field<T>;

/// A struct with a list of its fields.
template <typename T>
concept HasFields = requires(T& value) {
  fields_of(value);
};

/// Calls `visit(name, field)` for each field, in the order of the list.
template <HasFields T, typename Visit>
void for_each_field(T& value, Visit&& visit) {
  std::apply([&visit](const auto&... fields) { (visit(fields.name, fields.value), ...); }, fields_of(value));
}

namespace detail {

inline constexpr std::string_view kAbsent = "none";

/// The text of a field with one value. Reading it back gives the same value, to the bit.
template <typename T>
std::string text_of(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    if constexpr (requires { std::string_view(to_string(value)); }) {
      return std::string(to_string(value));
    } else {
      return fmt::format("{}", static_cast<std::underlying_type_t<T>>(value));
    }
  } else {
    return fmt::format("{}", value);  // the shortest text that identifies a float
  }
}

template <typename T>
std::string text_of(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? "," : "") + text_of(value);
  return text + "]";
}

template <typename T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : std::string(kAbsent);
}

template <typename T>
void add_lines(std::string& text, const std::string& name, const T& field);

template <HasFields T>
void add_lines(std::string& text, const std::string& name, const std::optional<T>& field) {
  if (field) return add_lines(text, name, *field);
  text += fmt::format("{} {}\n", name, kAbsent);
}

template <typename T>
void add_lines(std::string& text, const std::string& name, const T& field) {
  if constexpr (HasFields<const T>) {
    for_each_field(field, [&](std::string_view inner, const auto& value) {
      add_lines(text, fmt::format("{}.{}", name, inner), value);
    });
  } else {
    text += fmt::format("{} {}\n", name, text_of(field));
  }
}

}  // namespace detail

/// One line per field, `name value`. Two values have the same text exactly when they are equal (except NaN). Absent
/// optionals are `none`; fields of a nested or optional struct are named `outer.inner`. `prefix` starts every line.
template <HasFields T>
std::string fields_to_text(const T& value, std::string_view prefix = "") {
  std::string text;
  for_each_field(value, [&](std::string_view name, const auto& field) {
    detail::add_lines(text, fmt::format("{}{}", prefix, name), field);
  });
  return text;
}

}  // namespace lockstep

/// Lists all fields of `Type`; written after it, in its namespace. Fields are found by name, so their order is free. A
/// structured binding checks that none is missing.
#define LOCKSTEP_FIELDS(Type, ...)                                                  \
  template <typename T>                                                             \
  requires std::is_same_v<std::remove_const_t<T>, Type>                             \
  auto fields_of(T& value) {                                                        \
    [[maybe_unused]] const auto& [__VA_ARGS__] = value;                             \
    return std::tuple(LOCKSTEP_DETAIL_RESCAN(LOCKSTEP_DETAIL_FIELDS(__VA_ARGS__))); \
  }                                                                                 \
  static_assert(std::is_class_v<Type>)

// A macro does not expand inside itself, so each field leaves a call for the next rescan. 128 fields are supported.
#define LOCKSTEP_DETAIL_FIELDS(name, ...) \
  ::lockstep::Field{#name,                \
                    value.name} __VA_OPT__(, LOCKSTEP_DETAIL_MORE_FIELDS LOCKSTEP_DETAIL_PARENTHESES(__VA_ARGS__))
#define LOCKSTEP_DETAIL_MORE_FIELDS() LOCKSTEP_DETAIL_FIELDS
#define LOCKSTEP_DETAIL_PARENTHESES ()
#define LOCKSTEP_DETAIL_RESCAN(...) LOCKSTEP_DETAIL_RESCAN3(LOCKSTEP_DETAIL_RESCAN3(__VA_ARGS__))
#define LOCKSTEP_DETAIL_RESCAN3(...) \
  LOCKSTEP_DETAIL_RESCAN2(LOCKSTEP_DETAIL_RESCAN2(LOCKSTEP_DETAIL_RESCAN2(LOCKSTEP_DETAIL_RESCAN2(__VA_ARGS__))))
#define LOCKSTEP_DETAIL_RESCAN2(...) \
  LOCKSTEP_DETAIL_RESCAN1(LOCKSTEP_DETAIL_RESCAN1(LOCKSTEP_DETAIL_RESCAN1(LOCKSTEP_DETAIL_RESCAN1(__VA_ARGS__))))
#define LOCKSTEP_DETAIL_RESCAN1(...) \
  LOCKSTEP_DETAIL_RESCAN0(LOCKSTEP_DETAIL_RESCAN0(LOCKSTEP_DETAIL_RESCAN0(LOCKSTEP_DETAIL_RESCAN0(__VA_ARGS__))))
#define LOCKSTEP_DETAIL_RESCAN0(...) __VA_ARGS__
