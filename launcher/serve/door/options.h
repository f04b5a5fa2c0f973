// The options of the server's own process, and their way from `lockstep serve` to `lockstep-serve`.
//
//   lockstep serve … ── reads the command line ─► DoorOptions as JSON in a memory file ── exec ─► lockstep-serve
//
// The process id stays the same. The second program links no backend and no MPI.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/serve/replicas/replica_options.h"
#include "runtime/core/result.h"

namespace lockstep::serve {

/// The environment variable with the descriptor of the memory file.
inline constexpr const char* kOptionsVariable = "LOCKSTEP_SERVE_OPTIONS";

struct DoorOptions {
  std::string model;        // the model's directory
  std::string served_name;  // the id for clients; empty: the directory's name

  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any free one
  std::string unix_socket;
  std::string api_key_file, tls_certificate, tls_key, cors_origin;
  std::string endpoint_file;
  std::string log_format = "text";  // "text", "json"

  int64_t max_queue = 256;
  int64_t max_connections = 512;
  double max_body_mib = 32.0;
  double drain_s = 30.0;

  ReplicaOptions replicas;
};

std::string to_json(const DoorOptions& options);

/// Fails with `kInvalidArgument` for text that `to_json` did not write.
Result<DoorOptions> read_door_options(std::string_view json);

}  // namespace lockstep::serve
