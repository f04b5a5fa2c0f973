#include "runtime/device/rank_exchange.h"

#include <fmt/format.h>

#include <iterator>
#include <sstream>

namespace lockstep::device {
namespace {

constexpr char kSucceeded = '+';  // first character of a successful rank's text

std::string to_text(const Error& error) {
  return fmt::format("{} {} {}", static_cast<int>(error.kind), error.origin_rank.value_or(-1), error.message);
}

Error error_from(const std::string& text, int rank) {
  std::istringstream stream(text);
  int kind = 0, origin = -1;
  stream >> kind >> origin;
  stream.get();
  const std::string message{std::istreambuf_iterator<char>(stream), {}};
  return {static_cast<ErrorKind>(kind), fmt::format("{} (on rank {})", message, rank), origin < 0 ? rank : origin};
}

}  // namespace

Result<void> all_succeeded(const Exchange& exchange, const Result<void>& mine) {
  const std::string own = mine.has_value() ? std::string(1, kSucceeded) : to_text(mine.error());
  LOCKSTEP_TRY(const std::vector<std::string> all, exchange(own));
  if (!mine.has_value()) return mine.error();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].front() != kSucceeded) return error_from(all[rank], static_cast<int>(rank));
  }
  return ok();
}

}  // namespace lockstep::device
