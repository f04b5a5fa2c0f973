#include "launcher/commands.h"

namespace lockstep::launcher {

Result<void> compile(const CompileCommand&) {
  return Error{ErrorKind::kUnsupported, "[launcher] compile: not there yet"};
}

Result<void> export_artifacts(const ExportCommand&) {
  return Error{ErrorKind::kUnsupported, "[launcher] export: not there yet"};
}

}  // namespace lockstep::launcher
