// The commands of a build without Cap'n Proto's RPC.
#include <string>

#include "launcher/serve/control_command.h"
#include "launcher/serve/engine_command.h"
#include "launcher/serve/serve_command.h"

namespace lockstep::launcher {
namespace {

Error lacks_server(const std::string& command) {
  return {ErrorKind::kUnsupported,
          "[launcher] " + command + ": this build lacks the server; configure with -DLOCKSTEP_WITH_SERVER=ON"};
}

}  // namespace

Result<void> serve_engine(const EngineCommand&) { return lacks_server("engine"); }
Result<void> serve(const ServeCommand&) { return lacks_server("serve"); }
Result<void> control(const ControlCommand&) { return lacks_server("ctl"); }

}  // namespace lockstep::launcher
