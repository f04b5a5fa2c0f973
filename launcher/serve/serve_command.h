// The command `lockstep serve`: an HTTP server for one model.
//
//   lockstep serve …                 becomes lockstep-serve, which starts the ranks: processes, threads, or a launcher
//   mpirun -n 3 lockstep serve …     rank 0 becomes lockstep-serve, which starts rank 0 of the engine with what mpirun
//                                    gave it; the others are ranks 1 and 2 of the engine
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/serve/door/options.h"
#include "launcher/serve/engine_command.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// The command that starts the ranks.
enum class ServeLaunch { kProcesses, kThreads, kMpirun };

struct ServeCommand {
  EngineCommand engine;                   // as `lockstep engine` has them; checked here, used there
  serve::DoorOptions door;                // without its command of the engine
  std::optional<ServeLaunch> launch;      // default: what started this process, if that is a rank, or processes
  std::optional<std::string> launcher;    // instead of `launch`: "srun -n {ranks}"
  std::vector<std::string> engine_words;  // the options that are the engine's, as they were given
  bool takes_devices = false;             // each rank of the engine's backend takes a device of its own
};

/// Returns only from a rank other than 0, or if the server's program cannot be started. Fails with `kInvalidArgument`
/// for a launcher that cannot be read, with `kFailedPrecondition` for ranks of a launcher that are to start other
/// ranks, and with `kNotFound` for a missing program. @blocking
Result<void> serve(const ServeCommand& command);

}  // namespace lockstep::launcher
