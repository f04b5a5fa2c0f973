#include "launcher/serve/control_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "launcher/serve/door/api_keys.h"
#include "launcher/serve/http/client.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/clock.h"

namespace lockstep::launcher {
namespace {

using nlohmann::json;

constexpr Duration kAnswer = std::chrono::seconds(30);

/// Where a server answers.
struct Server {
  std::string url, key;  // key: empty where none is needed
};

Error bad_file(const std::filesystem::path& path, std::string_view found) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[serve] cannot read --endpoint-file {}: found {}, expected what lockstep serve --endpoint-file "
                      "writes; name the file of a running server",
                      path.string(), found)};
}

Result<Server> read_endpoint(const std::filesystem::path& path) {
  LOCKSTEP_TRY(const std::string text, read_text_file(path, "--endpoint-file"));
  const json endpoint = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto text_of = [&](const char* name) {
    const bool has = endpoint.is_object() && endpoint.contains(name) && endpoint[name].is_string();
    return has ? endpoint[name].get<std::string>() : std::string();
  };
  Server server{.url = text_of("url"), .key = {}};
  if (server.url.empty()) return bad_file(path, "no url");
  const std::string file = text_of("api_key_file");
  if (file.empty()) return server;
  LOCKSTEP_TRY(const std::string keys, read_text_file(file, "the endpoint file's api_key_file"));
  LOCKSTEP_TRY(const auto parsed, serve::ApiKeys::parse(keys, file));
  server.key = parsed.first();
  return server;
}

Error refused(const serve::HttpResponse& response) {
  const json answer = json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  const bool says = answer.is_object() && answer.contains("error") && answer["error"].contains("message");
  return {response.status == 400 ? ErrorKind::kInvalidArgument : ErrorKind::kFailedPrecondition,
          fmt::format("[serve] the server answered with status {}: {}", response.status,
                      says ? answer["error"]["message"].get<std::string>() : response.body)};
}

/// The JSON of a successful answer.
Result<json> ask(const Server& server, serve::ClientRequest request, Duration limit) {
  if (!server.key.empty()) request.headers.emplace_back("Authorization", "Bearer " + server.key);
  LOCKSTEP_TRY(const serve::HttpResponse response, serve::ask(server.url, request, limit));
  if (response.status != 200) return refused(response);
  return json::parse(response.body);
}

}  // namespace

Result<void> control(const ControlCommand& command) {
  LOCKSTEP_TRY(const Server server, read_endpoint(command.endpoint_file));
  if (command.action == ControlAction::kStatus) {
    LOCKSTEP_TRY(const json status, ask(server, {.method = "GET", .path = "/admin/status"}, kAnswer));
    fmt::print("{}\n", status.dump(2, ' ', false, json::error_handler_t::replace));
    return ok();
  }
  const bool is_anew = command.action == ControlAction::kRestart;
  json body = {{"wait", true}};
  if (!is_anew) body["tp"] = command.ranks.value_or(1);
  LOCKSTEP_TRY(const json changed, ask(server,
                                       {.method = "POST",
                                        .path = is_anew ? "/admin/restart" : "/admin/degree",
                                        .headers = {{"Content-Type", "application/json"}},
                                        .body = body.dump()},
                                       duration_of(command.deadline_s)));
  if (is_anew) {
    fmt::print("{} ranks, started anew\n", changed["tp"].get<int>());
  } else {
    fmt::print("{} ranks, {} before\n", changed["tp"].get<int>(), changed["before"].get<int>());
  }
  return ok();
}

}  // namespace lockstep::launcher
