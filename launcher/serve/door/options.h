// The options of the server's own process, and their way from `lockstep serve` to `lockstep-serve`.
//
//   lockstep serve … ── reads the command line ─► DoorOptions as JSON in a memory file ── exec ─► lockstep-serve
//
// The process id stays the same. The second program links no backend and no MPI.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  double start_deadline_s = 600.0;  // until the engine serves
  double silence_s = 8.0;           // without a step while work is running, until the server is not healthy

  std::string on_lost_rank = "same";  // "same", "shrink": the ranks start again, and open requests go on; "stop"
  int max_restarts = 5;               // in a row without a token

  std::vector<std::string> launcher;  // starts the engine's ranks: words with {ranks}; empty: they start each other
  std::vector<std::string> engine;    // the engine's command, without its socket and --tp; empty: attach to one
  int ranks = 0;                      // its --tp; 0: the number of ranks that another launcher has started
  std::string engine_records;         // --exit-record of the command; empty: it has none
  std::string engine_socket;          // of an engine that runs already
  std::string engine_host;
  int engine_port = 0;
  std::string secret_file;
};

/// The command of an engine with `ranks` ranks, without its socket. Pure.
std::vector<std::string> engine_command(const DoorOptions& options, int ranks);

/// Ranks among `ranks` that the command starts on this machine; 0: a launcher starts them. Pure.
int own_ranks(const DoorOptions& options, int ranks);

std::string to_json(const DoorOptions& options);

/// Fails with `kInvalidArgument` for text that `to_json` did not write.
Result<DoorOptions> read_door_options(std::string_view json);

}  // namespace lockstep::serve
