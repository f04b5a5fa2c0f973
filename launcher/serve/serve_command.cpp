#include "launcher/serve/serve_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "launcher/process/launched_rank.h"
#include "launcher/process/launcher_words.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/replica_cores.h"
#include "launcher/process/sibling_program.h"
#include "lockstep/engine.h"
#include "runtime/core/memory_file.h"

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

/// The words in front of the program for a launcher, with {ranks}; empty without one.
Result<std::vector<std::string>> launcher_words(const ServeCommand& command) {
  if (command.launch == ServeLaunch::kMpirun) return std::vector<std::string>{"mpirun", "-n", "{ranks}"};
  if (!command.launcher) return std::vector<std::string>();
  LOCKSTEP_TRY(std::vector<std::string> words, split_words(*command.launcher, "--launcher"));
  if (!words.empty()) return words;
  return Error{ErrorKind::kInvalidArgument,
               "[serve] --launcher: found no word, expected a command; write for example \"srun -n {ranks}\""};
}

bool is_attached(const serve::DoorOptions& door) {
  return !door.replicas.engine_socket.empty() || !door.replicas.engine_host.empty();
}

/// The option that asks for an engine of other processes; null: none was given.
const char* option_for_others(const ServeCommand& command) {
  if (command.launcher) return "--launcher";
  if (command.launch) return "--launch";
  if (command.door.replicas.replicas > 1) return "--replicas";
  return is_attached(command.door) ? "--engine" : nullptr;
}

/// The ranks that a launcher has started are the ranks of the model.
Result<void> check_launched(const ServeCommand& command, const LaunchedRank& own) {
  const char* const option = option_for_others(command);
  if (option == nullptr) return ok();
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[serve] rank {}: cannot serve with {}: found one of several ranks that {} has started, "
                           "expected one process; omit {}, or start lockstep without the launcher",
                           own.rank, option, own.launcher, option),
               own.rank};
}

/// The value of the engine's --launch.
const char* launch_of_engine(const ServeCommand& command, bool by_launcher) {
  if (by_launcher) return "mpi";
  return command.launch == ServeLaunch::kThreads ? "threads" : "processes";
}

/// Replicas that this machine runs share its cores.
Result<void> share_out_cores(const ServeCommand& command, serve::ReplicaOptions& replicas) {
  if (replicas.replicas == 1 || !replicas.launcher.empty()) return ok();
  LOCKSTEP_TRY(replicas.hardware_threads, cores_of_replicas({.command = "serve",
                                                             .backend = command.engine.engine.backend,
                                                             .takes_devices = command.takes_devices,
                                                             .replicas = replicas.replicas,
                                                             .ranks = replicas.ranks}));
  return ok();
}

/// Sets the command that starts the engine, without its address. `is_rank`: this process is rank 0 of a launcher.
Result<void> set_engine(const ServeCommand& command, bool is_rank, serve::DoorOptions& door) {
  LOCKSTEP_TRY(const fs::path lockstep, program("lockstep"));
  serve::ReplicaOptions& replicas = door.replicas;
  LOCKSTEP_TRY(replicas.launcher, launcher_words(command));
  const std::optional<int>& ranks = command.engine.model.ranks;
  if (command.engine.run.exit_record) replicas.records = fs::absolute(*command.engine.run.exit_record).string();
  // Before any process starts: ranks would say it one by one.
  if (!is_rank) {
    LOCKSTEP_TRY(const Model model, Model::open(command.engine.model.directory, command.engine.model.options));
    LOCKSTEP_TRY_VOID(check_ranks(model, command.engine.engine, ranks.value_or(1)));
  }
  const char* const launch = launch_of_engine(command, is_rank || !replicas.launcher.empty());
  replicas.engine = {lockstep.string(), "engine"};
  replicas.engine.insert(replicas.engine.end(), command.engine_words.begin(), command.engine_words.end());
  replicas.engine.insert(replicas.engine.end(), {"--launch", launch});
  if (!is_rank) {
    replicas.ranks = ranks.value_or(1);
    replicas.engine.insert(replicas.engine.end(), {"--end-signal", "leave"});
    return share_out_cores(command, replicas);
  }
  replicas.on_lost_rank = "stop";  // only the launcher could start the other ranks again
  if (ranks) replicas.engine.insert(replicas.engine.end(), {"--tp", std::to_string(*ranks)});
  replicas.engine.insert(replicas.engine.end(), {"--end-signal", "interrupt"});
  return ok();
}

/// Another rank than 0 of a launcher: the server, in rank 0's place, decides when all end.
Result<void> serve_as_rank(EngineCommand engine) {
  engine.run.launch = Launch::kMpi;
  engine.end_signal = EndSignal::kInterrupt;
  return serve_engine(engine);
}

/// Returns only if this process cannot become the server's program.
Result<void> become_server(const serve::DoorOptions& door) {
  LOCKSTEP_TRY(const fs::path path, program("lockstep-serve"));
  const auto options = make_memory_file("lockstep-serve", serve::to_json(door), Inherited::kYes);
  if (!options) {
    return Error{ErrorKind::kUnavailable,
                 fmt::format("[serve] cannot start the server: found '{}', expected a memory file for its options",
                             std::strerror(errno))};
  }
  set_own_variable(serve::kOptionsVariable, std::to_string(options->get()));
  const char* const words[] = {"lockstep-serve", "--model", door.model.c_str(), nullptr};  // for lists of processes
  ::execv(path.c_str(), const_cast<char* const*>(words));
  return Error{ErrorKind::kUnavailable, fmt::format("[serve] cannot start {}: found '{}', expected a program",
                                                    path.string(), std::strerror(errno))};
}

}  // namespace

Result<void> serve(const ServeCommand& command) {
  LOCKSTEP_TRY(const std::optional<LaunchedRank> own, launched_rank());
  if (own) {
    LOCKSTEP_TRY_VOID(check_launched(command, *own));
    if (own->rank != 0) return serve_as_rank(command.engine);
  }
  LOCKSTEP_TRY_VOID(check_files_of_replicas(command.engine.engine.observe, command.door.replicas.replicas));
  serve::DoorOptions door = command.door;
  door.model = fs::absolute(command.engine.model.directory).lexically_normal().string();
  door.replicas.silence_s = command.engine.run.silence_s;
  if (!is_attached(door)) LOCKSTEP_TRY_VOID(set_engine(command, own.has_value(), door));
  return become_server(door);
}

}  // namespace lockstep::launcher
