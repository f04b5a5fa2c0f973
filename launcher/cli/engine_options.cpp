#include <CLI/CLI.hpp>
#include <string>

#include "launcher/cli/choice.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {

void add_engine(CLI::App& parent, EngineCommand& command) {
  CLI::App& app = *parent.add_subcommand("engine", "Serve a model to other processes over RPC (engine/rpc)");
  command.engine.scoring = Scoring::kOn;
  add_model_options(app, command.model, command.engine);
  app.get_option("--tp")->description(
      "Tensor-parallel degree; default: the number of ranks, of which a divisor makes groups that serve apart");
  describe_open_sizes(app);
  add_chunk_budget(app, command.engine);
  begin_section(app, "Address, which rank 0 prints once it serves");
  auto* socket =
      app.add_option("--socket", command.socket, "A Unix socket that only this user may open")->type_name("F");
  app.add_option("--host", command.host, "Address to listen on")
      ->excludes(socket)
      ->capture_default_str()
      ->type_name("ADDRESS");
  app.add_option("--port", command.port, "Port to listen on; 0: a free one")
      ->excludes(socket)
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--secret-file", command.secret_file,
                 "A file with the secret that clients send; required without --socket")
      ->excludes(socket)
      ->type_name("F");
  add_engine_options(app, command.run, command.engine);
  app.add_option_function<int64_t>(
         "--scored-top",
         [&command](int64_t top) {
           command.engine.scoring = top < 0 ? Scoring::kOff : Scoring::kOn;
           command.engine.scored_top = top;
         },
         "The most of the likeliest tokens that scores of texts may have; -1: texts are not scored, which saves a "
         "graph; default: 20")
      ->check(CLI::Range(-1, 1000))
      ->type_name("N");
  app.add_option(
         "--end-signal", command.end_signal,
         "What ends ranks that run steps: any (SIGINT and SIGTERM; default), interrupt (SIGINT), where a launcher "
         "sends SIGTERM to a server and to its ranks, or leave: as any on rank 0, while SIGTERM to others says "
         "that their host is to be taken away, which a server acts on")
      ->transform(one_of<EndSignal>(
          {{"any", EndSignal::kAny}, {"interrupt", EndSignal::kInterrupt}, {"leave", EndSignal::kLeave}}))
      ->type_name("HOW");
}

}  // namespace lockstep::launcher
