#include "launcher/serve/control_command.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "launcher/serve/door/api_keys.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/clock.h"

namespace lockstep::launcher {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using nlohmann::json;

constexpr auto kAnswer = std::chrono::seconds(30);
constexpr auto kLook = std::chrono::milliseconds(100);
constexpr std::string_view kUnix = "unix:", kPlain = "http://";

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
  if (!endpoint.is_object() || !endpoint.contains("url") || !endpoint["url"].is_string()) {
    return bad_file(path, "no url");
  }
  Server server{.url = endpoint["url"], .key = {}};
  if (!server.url.starts_with(kUnix) && !server.url.starts_with(kPlain)) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[serve] ctl: found a server at {}, expected one without TLS; ask it with curl, as "
                             "docs/serving.md shows",
                             server.url)};
  }
  if (!endpoint.contains("api_key_file")) return server;
  const std::string file = endpoint["api_key_file"];
  LOCKSTEP_TRY(const std::string keys, read_text_file(file, "the endpoint file's api_key_file"));
  LOCKSTEP_TRY(const auto parsed, serve::ApiKeys::parse(keys, file));
  server.key = parsed.first();
  return server;
}

/// A request's way there and back, within the time of one answer.
template <typename Protocol>
class Exchange {
 public:
  http::response<http::string_body> run(const typename Protocol::endpoint& where,
                                        const http::request<http::string_body>& request) {
    stream_.expires_after(kAnswer);
    const auto stop_at = [this](const auto& next) {
      return [this, next](const beast::error_code& failed, auto&&...) {
        failed_ = failed;
        if (!failed) next();
      };
    };
    stream_.async_connect(where, stop_at([&] {
                            http::async_write(stream_, request, stop_at([&] {
                                                http::async_read(stream_, buffer_, response_, stop_at([] {}));
                                              }));
                          }));
    io_.run();
    return failed_ ? throw beast::system_error(failed_) : std::move(response_);
  }

 private:
  asio::io_context io_;
  beast::basic_stream<Protocol> stream_{io_};
  beast::flat_buffer buffer_;
  http::response<http::string_body> response_;
  beast::error_code failed_;
};

http::response<http::string_body> send(const Server& server, const http::request<http::string_body>& request) {
  if (server.url.starts_with(kUnix)) {
    return Exchange<asio::local::stream_protocol>().run(server.url.substr(kUnix.size()), request);
  }
  const std::string address = server.url.substr(kPlain.size());
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  asio::io_context io;
  const auto found = asio::ip::tcp::resolver(io).resolve(host, address.substr(colon + 1));
  return Exchange<asio::ip::tcp>().run(found.begin()->endpoint(), request);
}

Error refused(int status, const std::string& body) {
  const json answer = json::parse(body, nullptr, /*allow_exceptions=*/false);
  const bool says = answer.is_object() && answer.contains("error") && answer["error"].contains("message");
  const ErrorKind kind = status == 400 ? ErrorKind::kInvalidArgument : ErrorKind::kFailedPrecondition;
  return {kind, fmt::format("[serve] ctl: the server answered with status {}: {}", status,
                            says ? answer["error"]["message"].get<std::string>() : body)};
}

/// The JSON of a successful answer.
Result<json> ask(const Server& server, http::verb method, const char* path, const std::string& body = {}) {
  http::request<http::string_body> request(method, path, 11);
  request.set(http::field::host, "lockstep");
  request.set(http::field::connection, "close");
  if (!server.key.empty()) request.set(http::field::authorization, "Bearer " + server.key);
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  try {
    const auto response = send(server, request);
    if (response.result_int() >= 300) return refused(static_cast<int>(response.result_int()), response.body());
    return json::parse(response.body());
  } catch (const std::exception& failure) {
    return Error{ErrorKind::kUnavailable,
                 fmt::format("[serve] ctl: no answer from {}: found '{}', expected a running server; name the endpoint "
                             "file of one",
                             server.url, failure.what())};
  }
}

Result<void> change_degree(const Server& server, int ranks, Duration limit) {
  const SteadyClock clock;
  const Deadline deadline(clock, limit);
  LOCKSTEP_TRY(const json begun, ask(server, http::verb::post, "/admin/degree", json{{"tp", ranks}}.dump()));
  while (true) {
    LOCKSTEP_TRY(const json status, ask(server, http::verb::get, "/admin/status"));
    const bool is_over = status["changing_to_tp"].is_null() && status["state"] != "recovering";
    if (is_over && status["tp"] == ranks) {
      fmt::print("{} ranks, {} before\n", ranks, begun["before"].get<int>());
      return ok();
    }
    if (is_over) {
      const std::string why = status["change_failure"].is_string() ? status["change_failure"] : "a rank was lost";
      return Error{ErrorKind::kFailedPrecondition,
                   fmt::format("[serve] ctl: the server stays at {} ranks: {}", status["tp"].get<int>(), why)};
    }
    if (deadline.has_passed()) {
      return Error{ErrorKind::kDeadlineExceeded,
                   fmt::format("[serve] ctl: found ranks that do not serve after {:.0f} s, expected {} that do; the "
                               "server goes on with the change",
                               to_seconds(limit), ranks)};
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

Result<void> control(const ControlCommand& command) {
  LOCKSTEP_TRY(const Server server, read_endpoint(command.endpoint_file));
  if (command.action == ControlAction::kDegree) {
    return change_degree(server, command.ranks.value_or(1), duration_of(command.deadline_s));
  }
  LOCKSTEP_TRY(const json status, ask(server, http::verb::get, "/admin/status"));
  fmt::print("{}\n", status.dump(2, ' ', false, json::error_handler_t::replace));
  return ok();
}

}  // namespace lockstep::launcher
