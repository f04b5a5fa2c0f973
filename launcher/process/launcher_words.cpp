#include "launcher/process/launcher_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace lockstep::launcher {
namespace {

constexpr std::string_view kRanks = "{ranks}";
constexpr std::string_view kBlanks = " \t\n\r";

Error open_quote(std::string_view text, std::string_view option) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] {}: found a quote that is not closed in {}; close it", option, text)};
}

/// Reads the word at `at`, and moves `at` past it. Empty: a quote is not closed.
std::optional<std::string> read_word(std::string_view text, size_t& at) {
  std::string word;
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote == 0 && kBlanks.find(c) != std::string_view::npos) break;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && at + 1 < text.size() &&
               (quote == 0 || std::string_view("\"\\$`").find(text[at + 1]) != std::string_view::npos)) {
      word += text[++at];
    } else {
      word += c;
    }
  }
  if (quote != 0) return std::nullopt;
  return word;
}

}  // namespace

Result<std::vector<std::string>> split_words(std::string_view text, std::string_view option) {
  std::vector<std::string> words;
  for (size_t at = text.find_first_not_of(kBlanks); at < text.size(); at = text.find_first_not_of(kBlanks, at)) {
    const std::optional<std::string> word = read_word(text, at);
    if (!word) return open_quote(text, option);
    words.push_back(*word);
  }
  return words;
}

bool name_ranks(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) { return word.find(kRanks) != std::string::npos; });
}

std::vector<std::string> with_ranks(std::vector<std::string> words, int ranks) {
  const std::string number = std::to_string(ranks);
  for (std::string& word : words) {
    for (size_t at = word.find(kRanks); at != std::string::npos; at = word.find(kRanks, at)) {
      word.replace(at, kRanks.size(), number);
    }
  }
  return words;
}

}  // namespace lockstep::launcher
