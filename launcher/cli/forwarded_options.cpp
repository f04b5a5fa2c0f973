// The options of one command that are handed on to another.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "launcher/cli/commands.h"

namespace lockstep::launcher {

std::vector<std::string> options_among(const CLI::App& app, const std::vector<std::string>& words,
                                       std::span<const std::string> left_out) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option == nullptr) continue;
    std::vector<std::string> with_value{words[i]};
    if (option->get_items_expected_max() > 0) {  // not a flag
      if (equals == std::string::npos && i + 1 == words.size()) break;
      with_value = {name, equals == std::string::npos ? words[++i] : words[i].substr(equals + 1)};
    }
    if (std::ranges::find(left_out, name) == left_out.end()) found.emplace_back(name, std::move(with_value));
  }
  std::ranges::stable_sort(found, {}, &std::pair<std::string, std::vector<std::string>>::first);
  std::vector<std::string> words_of_options;
  for (const auto& [name, with_value] : found) {
    words_of_options.insert(words_of_options.end(), with_value.begin(), with_value.end());
  }
  return words_of_options;
}

std::vector<std::string> words_without(const std::vector<std::string>& words, std::span<const std::string> left_out) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (std::ranges::find(left_out, words[i].substr(0, equals)) == left_out.end()) {
      kept.push_back(words[i]);
    } else if (equals == std::string::npos) {
      ++i;  // its value
    }
  }
  return kept;
}

}  // namespace lockstep::launcher
