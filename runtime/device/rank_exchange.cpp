#include "runtime/device/rank_exchange.h"

#include <fmt/format.h>

namespace lockstep::device {
namespace {

constexpr char kWell = '+';  // begins the word of a rank that did not fail

std::string to_text(const Error& error) { return fmt::format("{} {}", static_cast<int>(error.kind), error.message); }

Error error_from(const std::string& text, int rank) {
  const size_t space = text.find(' ');
  return {static_cast<ErrorKind>(std::stoi(text.substr(0, space))),
          fmt::format("{} (on rank {})", text.substr(space + 1), rank), rank};
}

}  // namespace

Result<void> all_succeeded(const Exchange& exchange, const Result<void>& mine) {
  const std::string word = mine.has_value() ? std::string(1, kWell) : to_text(mine.error());
  LOCKSTEP_TRY(const std::vector<std::string> words, exchange(word));
  if (!mine.has_value()) return mine.error();
  for (size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank].front() != kWell) return error_from(words[rank], static_cast<int>(rank));
  }
  return ok();
}

}  // namespace lockstep::device
