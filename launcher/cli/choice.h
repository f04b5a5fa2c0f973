// Options whose value is one of some words.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::launcher {

/// "a", "a or b", "a, b or c".
inline std::string alternatives(std::span<const std::string> words) {
  if (words.size() < 2) return words.empty() ? std::string() : words.front();
  return fmt::format("{} or {}", fmt::join(words.first(words.size() - 1), ", "), words.back());
}

/// Takes a word of `choices` and makes it its value; other text is an error that lists the words.
template <typename T>
CLI::Validator one_of(std::vector<std::pair<std::string, T>> choices) {
  std::vector<std::string> words;
  for (const auto& choice : choices) words.push_back(choice.first);
  const auto choose = [choices, words](std::string& text) -> std::string {
    for (const auto& [word, value] : choices) {
      if (word != text) continue;
      text = CLI::detail::value_string(value);
      return {};
    }
    return fmt::format("found '{}', expected {}", text, alternatives(words));
  };
  return CLI::Validator(choose, fmt::format("{{{}}}", fmt::join(words, ",")));
}

}  // namespace lockstep::launcher
