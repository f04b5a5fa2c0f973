// Every rank opens the engine; rank 0 of each replica serves it to other processes.
#include "launcher/serve/engine_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "engine/rpc/server.h"
#include "launcher/process/launch_siblings.h"
#include "launcher/process/own_ranks.h"
#include "launcher/process/secret_file.h"
#include "launcher/process/sibling_program.h"
#include "launcher/serve/replica_addresses.h"
#include "lockstep/engine.h"
#include "runtime/core/field_list.h"

namespace lockstep::launcher {
namespace {

constexpr auto kDelivery = std::chrono::milliseconds(500);  // of requests' ends, once the engine has ended
constexpr auto kLook = std::chrono::milliseconds(200);      // between two looks whether the group has failed

Result<rpc::RpcAddress> address_of(const EngineCommand& command) {
  rpc::RpcAddress address{
      .socket = command.socket.value_or(""), .host = command.host, .port = command.port, .secret = {}};
  if (!command.secret_file) return address;
  LOCKSTEP_TRY(address.secret, read_secret(*command.secret_file));
  if (!address.secret.empty()) return address;
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] --secret-file: found {} empty, expected a secret; write one into it",
                           command.secret_file->string())};
}

/// What all replicas must have in common.
Result<std::string> statement_of_launch(const EngineCommand& command, const Group& group, const Model& model) {
  LOCKSTEP_TRY(std::string statement, statement_of(command.engine));
  if (group.replicas() > 1) statement += fields_to_text(model.spec(), "model: ");  // one group compares it by itself
  return statement;
}

/// Rank 0: serves requests until a client ends the engine, or the group fails.
Result<void> serve(Group& group, const Model& model, Engine& engine, const ReplicaAddresses& addresses,
                   const Log& log) {
  LOCKSTEP_TRY(const auto server,
               rpc::RpcServer::open(group, engine, model, addresses.own, sibling_program("lockstep-constraint"),
                                    addresses.others, [&](const std::string& line) { log.warning("{}", line); }));
  if (group.replica() == 0) fmt::print("{}\n", server->address());
  std::fflush(stdout);
  while (!server->wait_finish(kLook) && !group.failure()) {
  }
  const std::optional<Error> failure = group.failure();
  Result<void> ended = failure ? Result<void>(*failure) : engine.close();
  static_cast<void>(server->wait_delivered(kDelivery));  // a client that does not read gets no more time
  return ended;
}

Result<void> run(const EngineCommand& command, Group& group, const Log& log) {
  Result<Model> model = Model::open(command.model.directory, command.model.options);
  std::string statement;
  ReplicaAddresses addresses;
  const auto prepare = [&]() -> Result<void> {
    if (!model.has_value()) return model.error();
    LOCKSTEP_TRY_VOID(check_files_of_replicas(command.engine.observe, group.replicas()));
    LOCKSTEP_TRY(statement, statement_of_launch(command, group, model.value()));
    if (!group.leads() || group.replica() != 0) return ok();
    LOCKSTEP_TRY(addresses.own, address_of(command));
    for (const std::string& warning : model.value().warnings()) log.warning("{}", warning);
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded_on_launch(group, prepare()));
  LOCKSTEP_TRY_VOID(agree_on_launch(group, "options", statement));
  LOCKSTEP_TRY(addresses, agree_on_addresses(group, addresses.own));
  LOCKSTEP_TRY(const auto engine, Engine::open(group, model.value(), command.engine));
  if (!group.leads()) return engine->serve();
  const Result<void> served = serve(group, model.value(), *engine, addresses, log);
  if (!served.has_value()) group.fail(served.error());
  return served;
}

}  // namespace

Result<void> check_files_of_replicas(const ObserveOptions& observe, int replicas) {
  if (replicas == 1 || (!observe.trace && !observe.metrics)) return ok();
  const char* const option = observe.trace ? "--trace" : "--metrics";
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] {}: found {} replicas, which would all write this file, expected one group of "
                           "ranks; omit {} (/metrics of lockstep serve counts all replicas), or start one group",
                           option, replicas, option)};
}

Result<void> serve_engine(const EngineCommand& command) {
  return on_own_ranks({.run = command.run,
                       .ranks = command.model.ranks,
                       .read_ahead = command.model.directory,
                       .end_signal = command.end_signal,
                       .replicas = Replicas::kMade},
                      [&](Group& group, const Log& log) { return run(command, group, log); });
}

}  // namespace lockstep::launcher
