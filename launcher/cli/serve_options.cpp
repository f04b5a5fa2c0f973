#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>
#include <string>

#include "launcher/cli/choice.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {
namespace {

/// Reads "HOST:PORT" or the path of a Unix socket.
void set_engine_address(serve::DoorOptions& door, const std::string& text) {
  const size_t colon = text.rfind(':');
  if (text.find('/') != std::string::npos || colon == std::string::npos) {
    door.replicas.engine_socket = text;
    return;
  }
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + colon + 1, end, door.replicas.engine_port);
  if (failure != std::errc{} || stop != end || door.replicas.engine_port < 1 || door.replicas.engine_port > 65535) {
    throw CLI::ValidationError("--engine", "found \"" + text + "\", expected a path or HOST:PORT");
  }
  door.replicas.engine_host = text.substr(0, colon);
}

void add_address_options(CLI::App& app, serve::DoorOptions& door) {
  begin_section(app, "Address, which is printed once the server listens");
  auto* unix_socket =
      app.add_option("--unix-socket", door.unix_socket, "Listen at a Unix socket instead of a port")->type_name("F");
  app.add_option("--host", door.host, "Address to listen on; 0.0.0.0 is every network")
      ->excludes(unix_socket)
      ->capture_default_str()
      ->type_name("ADDRESS");
  app.add_option("--port", door.port, "Port to listen on; 0: a free one")
      ->excludes(unix_socket)
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--endpoint-file", door.endpoint_file,
                 "Write the address, the job and an ssh line to this file once the server is ready")
      ->type_name("F");
  app.add_option("--served-model-name", door.served_name, "The model's id for clients; default: the directory's name")
      ->type_name("NAME");
}

void add_access_options(CLI::App& app, serve::DoorOptions& door) {
  begin_section(app, "Access and limits");
  app.add_option("--api-key-file", door.api_key_file, "A file with the keys that clients may use, one a line")
      ->check(CLI::ExistingFile)
      ->type_name("F");
  auto* certificate =
      app.add_option("--tls-cert", door.tls_certificate, "Serve HTTPS with this certificate chain (PEM)")
          ->check(CLI::ExistingFile)
          ->type_name("F");
  auto* key = app.add_option("--tls-key", door.tls_key, "The certificate's private key (PEM)")
                  ->check(CLI::ExistingFile)
                  ->type_name("F");
  certificate->needs(key);
  key->needs(certificate);
  app.add_option("--cors-origin", door.cors_origin, "Allow pages of this origin to call the server; * is any")
      ->type_name("ORIGIN");
  app.add_option("--max-queue", door.max_queue, "Sequences that may wait for a slot; more get status 429")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--max-connections", door.max_connections, "Connections open at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--max-body-mib", door.max_body_mib, "The largest body of a request")
      ->check(CLI::Range(0.001, 4096.0))
      ->capture_default_str()
      ->type_name("MIB");
}

void add_operation_options(CLI::App& app, serve::DoorOptions& door) {
  begin_section(app, "Operation");
  app.add_option("--drain-s", door.drain_s,
                 "After SIGTERM, seconds for open requests to end; a second one stops at once")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str()
      ->type_name("S");
  app.add_option("--engine-deadline-s", door.replicas.start_deadline_s, "Seconds until the model has to be loaded")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str()
      ->type_name("S");
  app.add_option("--on-lost-rank", door.replicas.on_lost_rank,
                 "When a rank is lost, the ranks start again and open requests go on, their answers the same: as many "
                 "ranks (same), or one less until the others are back (shrink); or the server ends (stop)")
      ->check(CLI::IsMember({"same", "shrink", "stop"}))
      ->capture_default_str()
      ->type_name("WHAT");
  app.add_option("--max-restarts", door.replicas.max_restarts,
                 "Restarts in a row without a token, until the server ends")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--log-format", door.log_format, "One line for each request, without its text: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str()
      ->type_name("F");
}

CLI::Option* add_replicas(CLI::App& app, serve::ReplicaOptions& replicas) {
  return app
      .add_option("--replicas", replicas.replicas,
                  "Groups of --tp ranks that serve the same model and share the requests, each on its part of the "
                  "cores; one that is lost costs no request")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->type_name("N");
}

/// Replaces the engine's --launch.
CLI::Option* add_launch_option(CLI::App& app, std::optional<ServeLaunch>& launch) {
  app.remove_option(app.get_option("--launch"));
  return app
      .add_option("--launch", launch,
                  "What starts the ranks: processes (default; one for each, by the server itself), threads of one "
                  "process, or mpirun. Under mpirun and srun: they have started the ranks")
      ->transform(one_of<ServeLaunch>({{"processes", ServeLaunch::kProcesses},
                                       {"threads", ServeLaunch::kThreads},
                                       {"mpirun", ServeLaunch::kMpirun}}))
      ->group("Engine")
      ->type_name("HOW");
}

}  // namespace

void add_serve(CLI::App& parent, ServeCommand& command, std::vector<std::string>& own_options) {
  CLI::App& app =
      *parent.add_subcommand("serve", "Serve a model over HTTP to clients of OpenAI's and Anthropic's APIs");
  command.engine.engine.scoring = Scoring::kOn;
  add_model_options(app, command.engine.model, command.engine.engine);
  describe_open_sizes(app);
  app.get_option("--tp")->description(
      "Tensor-parallel degree; default: 1, or the ranks that a launcher has started, of which a divisor makes groups");
  add_chunk_budget(app, command.engine.engine);
  const size_t first = app.get_options().size();
  add_address_options(app, command.door);
  add_access_options(app, command.door);
  add_operation_options(app, command.door);
  begin_section(app, "Engine");
  auto* replicas = add_replicas(app, command.door.replicas);
  auto* launcher =
      app.add_option("--launcher", command.launcher,
                     "The command that starts the ranks instead, such as \"srun -n {ranks} --exclude={lost_hosts}\"; "
                     "a word with {lost_hosts} is left out while none is lost")
          ->type_name("WORDS");
  auto* attached =
      app.add_option_function<std::string>(
             "--engine", [&command](const std::string& text) { set_engine_address(command.door, text); },
             "Serve a lockstep engine that runs already, at this socket or HOST:PORT, and leave it running")
          ->excludes(launcher, replicas)
          ->type_name("ADDRESS");
  app.add_option("--secret-file", command.door.replicas.secret_file, "The secret of that engine")
      ->needs(attached)
      ->type_name("F");
  const auto options = app.get_options();
  for (size_t i = first; i < options.size(); ++i) own_options.push_back(options[i]->get_name());
  // The server chooses the engine's own.
  own_options.insert(own_options.end(), {"--launch", "--tp", "--tp-degree", "--exit-record"});
  add_engine_options(app, command.engine.run, command.engine.engine);
  add_launch_option(app, command.launch)->excludes(launcher, attached);
  app.footer("\nThe server answers when GET /health is 200. docs/serving.md has lines to copy for clients.\n");
}

}  // namespace lockstep::launcher
