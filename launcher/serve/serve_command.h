// The command `lockstep serve`: an HTTP server for one model. This process becomes the server's program,
// lockstep-serve.
#pragma once

#include <string>
#include <vector>

#include "launcher/serve/door/options.h"
#include "launcher/serve/engine_command.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

struct ServeCommand {
  EngineCommand engine;                   // as `lockstep engine` has them; checked here, used there
  serve::DoorOptions door;                // without its command of the engine
  std::string launcher;                   // what starts the ranks: "srun -n {ranks}"; empty: by RunOptions::launch
  std::vector<std::string> engine_words;  // the options that are the engine's, as they were given
};

/// Returns only if the server's program cannot be started. Fails with `kInvalidArgument` for options that do not fit
/// together, and with `kNotFound` for a missing program or model.
Result<void> serve(const ServeCommand& command);

}  // namespace lockstep::launcher
