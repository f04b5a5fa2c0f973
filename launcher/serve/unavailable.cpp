// The command of a build without Cap'n Proto's RPC.
#include "launcher/serve/engine_command.h"

namespace lockstep::launcher {

Result<void> serve_engine(const EngineCommand&) {
  return Error{ErrorKind::kUnsupported,
               "[launcher] engine: this build lacks the server; configure with -DLOCKSTEP_WITH_SERVER=ON"};
}

}  // namespace lockstep::launcher
