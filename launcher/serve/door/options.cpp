#include "launcher/serve/door/options.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/process/launcher_words.h"

namespace lockstep::serve {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DoorOptions, model, served_name, host, port, unix_socket, api_key_file,
                                   tls_certificate, tls_key, cors_origin, endpoint_file, log_format, max_queue,
                                   max_connections, max_body_mib, drain_s, start_deadline_s, silence_s, on_lost_rank,
                                   max_restarts, launcher, engine, ranks, engine_records, engine_socket, engine_host,
                                   engine_port, secret_file)

std::vector<std::string> engine_command(const DoorOptions& options, int ranks) {
  std::vector<std::string> words = launcher::with_ranks(options.launcher, ranks);
  words.insert(words.end(), options.engine.begin(), options.engine.end());
  if (ranks > 0) words.insert(words.end(), {"--tp", std::to_string(ranks)});
  return words;
}

int own_ranks(const DoorOptions& options, int ranks) {
  if (!options.launcher.empty()) return 0;
  return ranks > 0 ? ranks : 1;  // beside those of another launcher
}

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
