// The program lockstep-constraint, which an engine starts: lockstep-constraint SOCKET SETUP, both numbers of open
// files.
#include <charconv>
#include <cstring>
#include <optional>

#include "runtime/constraint/constraint_host.h"

namespace {

std::optional<int> descriptor_of(const char* word) {
  int number = -1;
  const char* const end = word + std::strlen(word);
  const bool is_number = std::from_chars(word, end, number).ptr == end && number > 2;
  return is_number ? std::optional(number) : std::nullopt;
}

}  // namespace

int main(int count, char** words) {
  const auto socket = count == 3 ? descriptor_of(words[1]) : std::nullopt;
  const auto setup = count == 3 ? descriptor_of(words[2]) : std::nullopt;
  if (!socket || !setup) return 2;
  lockstep::constraint::host_constraints(*socket, *setup);
  return 0;
}
