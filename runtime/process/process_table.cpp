#include "runtime/process/process_table.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace lockstep::process {
namespace {

/// The contents of /proc/PID/stat: "PID (NAME) STATE PARENT GROUP SESSION …"; proc(5). None: it has ended.
std::optional<ListedProcess> parse(pid_t pid, const std::string& stat) {
  const size_t after_name = stat.rfind(')');
  if (after_name == std::string::npos) return std::nullopt;
  ListedProcess found{.pid = pid};
  char state = 'Z';  // of its first thread, which may end before others
  long threads = 0;
  const char* const rest = stat.c_str() + after_name + 1;
  const int fields = std::sscanf(rest, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld", &state,
                                 &found.parent, &found.session, &threads);
  const bool has_ended = (state == 'Z' || state == 'X') && threads < 2;
  return fields != 4 || has_ended ? std::nullopt : std::optional(found);
}

}  // namespace

std::vector<ListedProcess> list_processes() {
  std::vector<ListedProcess> found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr != name.data() + name.size()) continue;
    std::string stat;
    std::getline(std::ifstream(entry.path() / "stat"), stat);
    if (const auto process = parse(pid, stat)) found.push_back(*process);
  }
  return found;
}

}  // namespace lockstep::process
