// Commands that tests parse from words.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "launcher/cli/command_line.h"

namespace lockstep::launcher {

/// Of the words behind the program's name.
inline Result<Command> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "lockstep");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

/// Of the words behind `generate --model dir`.
inline GenerateCommand generate(std::vector<const char*> words) {
  words.insert(words.begin(), {"generate", "--model", "dir"});
  return std::get<GenerateCommand>(parse(std::move(words)).value());
}

}  // namespace lockstep::launcher
