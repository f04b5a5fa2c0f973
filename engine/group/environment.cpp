#include "engine/group/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

extern char** environ;

namespace lockstep::group {

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

process::EnvironmentMap whole_environment() {
  process::EnvironmentMap all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (const size_t equals = text.find('='); equals != std::string_view::npos) {
      all.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return all;
}

Result<std::vector<std::string>> own_command() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  std::error_code failed;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed || words.empty()) {
    return Error{ErrorKind::kUnavailable,
                 "[engine/group] cannot start this program on other ranks: found no /proc/self/exe, expected the files "
                 "of this process in /proc; mount it (mount -t proc proc /proc), or start every rank with mpirun"};
  }
  words.front() = program;
  return words;
}

}  // namespace lockstep::group
