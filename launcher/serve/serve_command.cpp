#include "launcher/serve/serve_command.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "launcher/process/own_environment.h"
#include "launcher/process/sibling_program.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

/// A program of this build, which lies in the folder of the running one.
Result<fs::path> program(const char* name) {
  std::error_code failed;
  const fs::path path = sibling_program(name);
  if (fs::exists(path, failed)) return path;
  return Error{ErrorKind::kNotFound,
               fmt::format("[serve] cannot start the server: found no program {}, expected it in the folder of "
                           "lockstep; install both",
                           path.string())};
}

/// "srun -n {ranks}" as words, with the number of ranks.
std::vector<std::string> launcher_words(const std::string& launcher, int ranks) {
  std::vector<std::string> words;
  std::istringstream stream(launcher);
  for (std::string word; stream >> word;) {
    if (const size_t at = word.find("{ranks}"); at != std::string::npos) word.replace(at, 7, std::to_string(ranks));
    words.push_back(word);
  }
  return words;
}

/// The command of the engine without its address.
Result<std::vector<std::string>> engine_command(const ServeCommand& command) {
  LOCKSTEP_TRY(const fs::path lockstep, program("lockstep"));
  const Launch launch = command.engine.run.launch;
  const int ranks = command.engine.model.ranks.value_or(1);
  const bool by_launcher = !command.launcher.empty() || launch == Launch::kMpi;
  std::vector<std::string> words;
  if (by_launcher) words = launcher_words(command.launcher.empty() ? "mpirun -n {ranks}" : command.launcher, ranks);
  words.insert(words.end(), {lockstep.string(), "engine"});
  words.insert(words.end(), command.engine_words.begin(), command.engine_words.end());
  words.insert(words.end(), {"--launch", by_launcher ? "mpi" : launch == Launch::kThreads ? "threads" : "processes"});
  return words;
}

/// A descriptor of `text`, which the next program inherits.
Result<int> memory_file(const std::string& text) {
  const int descriptor = ::memfd_create("lockstep-serve", 0);
  if (descriptor >= 0 && ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return descriptor;
  }
  return Error{ErrorKind::kUnavailable,
               fmt::format("[serve] cannot start the server: found '{}', expected a memory file for its options",
                           std::strerror(errno))};
}

}  // namespace

Result<void> serve(const ServeCommand& command) {
  serve::DoorOptions door = command.door;
  door.model = fs::absolute(command.engine.model.directory).lexically_normal().string();
  door.silence_s = command.engine.run.silence_s;
  if (door.engine_socket.empty() && door.engine_host.empty()) {
    LOCKSTEP_TRY(door.engine, engine_command(command));
  }
  LOCKSTEP_TRY(const fs::path path, program("lockstep-serve"));
  LOCKSTEP_TRY(const int options, memory_file(serve::to_json(door)));
  set_own_variable(serve::kOptionsVariable, std::to_string(options));
  const std::string model = door.model;
  const char* const words[] = {"lockstep-serve", "--model", model.c_str(), nullptr};  // for lists of processes
  ::execv(path.c_str(), const_cast<char* const*>(words));
  return Error{ErrorKind::kUnavailable, fmt::format("[serve] cannot start {}: found '{}', expected a program",
                                                    path.string(), std::strerror(errno))};
}

}  // namespace lockstep::launcher
