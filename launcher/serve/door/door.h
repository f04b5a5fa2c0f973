// The server's process: HTTP in front, an engine behind, health, metrics and the end between them.
//
//   client ─► HttpServer ─► Door: key? ─► Api ─► Engine (RPC) ─► ranks
//                             ├─ /health, /metrics, /admin/status, /
//                             └─ EngineProcess: ends with this process; its end is this process's end
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "launcher/serve/door/options.h"
#include "runtime/core/log.h"
#include "runtime/process/child_process.h"

namespace lockstep::serve {

/// Neither copied nor moved.
class Door {
 public:
  virtual ~Door() = default;

  /// Listens, and prints nothing. Fails with `kInvalidArgument` (keys, certificates) and `kUnavailable` (address).
  /// `log` outlives it; `environment` is the engine's; `request_line` gets a whole line for each request.
  static Result<std::unique_ptr<Door>> open(DoorOptions options, process::EnvironmentMap environment, const Log& log,
                                            std::function<void(std::string_view)> request_line);

  /// "http://127.0.0.1:8000".
  virtual std::string address() const = 0;

  /// Serves until `interrupt` or the end of the engine. Fails with the reason of an end that was not asked for; its
  /// kind has the engine's exit code. Once. @blocking
  virtual Result<void> run() = 0;

  /// The first call lets open requests end, the second does not. Thread-safe.
  virtual void interrupt() = 0;
};

}  // namespace lockstep::serve
