// Settings of the stand-ins: words of an environment variable with commas between them, and planted faults.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace lockstep::cu {

/// A word of a setting: "key", "key=value", or "name:nth=value" of a fault.
struct SettingWord {
  const char* variable;
  std::string_view key;
  std::string_view nth;  // of a fault: "3", "3+"
  std::string_view value;

  [[noreturn]] void refuse(std::string_view expected) const {
    fmt::print(stderr, "[stand-in] {}: found {}{}{}={}, expected {}\n", variable, key, nth.empty() ? "" : ":", nth,
               value, expected);
    std::abort();
  }
  int64_t number(std::string_view text) const {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) refuse("a number");
    return number;
  }
};

/// Which calls of a function fail: the nth, or the nth and all that follow.
struct FaultCalls {
  int64_t nth = 0;
  bool goes_on = false;

  bool hits(int64_t call) const { return goes_on ? call >= nth : call == nth; }
};

inline FaultCalls fault_calls(const SettingWord& word) {
  const bool goes_on = word.nth.ends_with('+');
  return {word.number(word.nth.substr(0, word.nth.size() - (goes_on ? 1 : 0))), goes_on};
}

/// Calls `read(SettingWord)` for each word of the variable.
template <typename Read>
void read_settings(const char* variable, Read read) {
  const char* set = std::getenv(variable);
  std::string_view text = set == nullptr ? "" : set;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    const size_t equals = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, equals);
    const size_t colon = std::min(key.find(':'), key.size());
    if (!word.empty()) {
      read(SettingWord{.variable = variable,
                       .key = key.substr(0, colon),
                       .nth = key.substr(std::min(colon + 1, key.size())),
                       .value = word.substr(std::min(equals + 1, word.size()))});
    }
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
}

}  // namespace lockstep::cu
