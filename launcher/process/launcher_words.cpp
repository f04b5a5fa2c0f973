#include "launcher/process/launcher_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace lockstep::launcher {
namespace {

constexpr std::string_view kRanks = "{ranks}", kLostHosts = "{lost_hosts}";
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

bool name(const std::vector<std::string>& words, std::string_view place) {
  return std::ranges::any_of(words, [place](const std::string& word) { return word.find(place) != std::string::npos; });
}

void replace_all(std::string& word, std::string_view place, const std::string& text) {
  for (size_t at = word.find(place); at != std::string::npos; at = word.find(place, at + text.size())) {
    word.replace(at, place.size(), text);
  }
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

bool name_ranks(const std::vector<std::string>& words) { return name(words, kRanks); }
bool name_lost_hosts(const std::vector<std::string>& words) { return name(words, kLostHosts); }

std::vector<std::string> with_ranks(std::vector<std::string> words, int ranks,
                                    const std::set<std::string>& lost_hosts) {
  if (lost_hosts.empty()) {
    std::erase_if(words, [](const std::string& word) { return word.find(kLostHosts) != std::string::npos; });
  }
  const std::string hosts = fmt::format("{}", fmt::join(lost_hosts, ","));
  for (std::string& word : words) {
    replace_all(word, kRanks, std::to_string(ranks));
    replace_all(word, kLostHosts, hosts);
  }
  return words;
}

}  // namespace lockstep::launcher
