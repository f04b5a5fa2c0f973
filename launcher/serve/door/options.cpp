#include "launcher/serve/door/options.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lockstep::serve {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReplicaOptions, replicas, ranks, hardware_threads, on_lost_rank, max_restarts,
                                   start_deadline_s, silence_s, launcher, engine, records, engine_socket, engine_host,
                                   engine_port, secret_file)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DoorOptions, model, served_name, host, port, unix_socket, api_key_file,
                                   tls_certificate, tls_key, cors_origin, endpoint_file, log_format, max_queue,
                                   max_connections, max_body_mib, drain_s, replicas)

std::string to_json(const DoorOptions& options) { return nlohmann::json(options).dump(); }

Result<DoorOptions> read_door_options(std::string_view json) {
  try {
    return nlohmann::json::parse(json).get<DoorOptions>();
  } catch (const nlohmann::json::exception& failure) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[serve] cannot read its options: found '{}', expected those that lockstep serve writes; "
                             "start the server with lockstep serve",
                             failure.what())};
  }
}

}  // namespace lockstep::serve
