// Structs whose fields are all numbers or `Bytes`, gathered from every rank as lines of text.
#pragma once

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/group/member.h"
#include "runtime/core/field_list.h"

namespace lockstep::observe {

/// The fields in order, a space after each.
template <typename Numbers>
std::string line_of_numbers(const Numbers& numbers) {
  std::string line;
  for_each_field(numbers, [&](std::string_view, const auto& field) {
    if constexpr (requires { field.value; }) {
      line += fmt::format("{} ", field.value);
    } else {
      line += fmt::format("{} ", field);
    }
  });
  return line;
}

/// The inverse of `line_of_numbers`.
template <typename Numbers>
Numbers numbers_of_line(const std::string& line) {
  Numbers numbers;
  std::istringstream stream(line);
  for_each_field(numbers, [&](std::string_view, auto& field) {
    if constexpr (requires { field.value; }) {
      stream >> field.value;
    } else {
      stream >> field;
    }
  });
  return numbers;
}

/// Those of every rank, by rank, on every rank. @collective @blocking
template <typename Numbers>
Result<std::vector<Numbers>> gather_numbers(group::Member& member, const Numbers& own) {
  LOCKSTEP_TRY(const auto lines, member.bootstrap().exchange(line_of_numbers(own)));
  std::vector<Numbers> all;
  for (const std::string& line : lines) all.push_back(numbers_of_line<Numbers>(line));
  return all;
}

}  // namespace lockstep::observe
