#include "launcher/serve/http/client.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <string_view>
#include <utility>

namespace lockstep::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::string_view kUnix = "unix:", kPlain = "http://";

using Message = http::request<http::string_body>;
using Answer = http::response<http::string_body>;

/// A request's way there and back. Used once.
template <typename Protocol>
class Way {
 public:
  explicit Way(Duration limit) : limit_(limit) {}

  Answer go(const typename Protocol::endpoint& where, const Message& message) {
    stream_.expires_after(limit_);
    stream_.async_connect(where, then([&] { write(message); }));
    io_.run();
    if (failed_) throw beast::system_error(failed_);
    return std::move(answer_);
  }

 private:
  void write(const Message& message) {
    http::async_write(stream_, message, then([this] { http::async_read(stream_, buffer_, answer_, then([] {})); }));
  }

  /// Continues with `next` unless a step has failed.
  template <typename Next>
  auto then(Next next) {
    return [this, next](const beast::error_code& failed, auto&&...) {
      failed_ = failed;
      if (!failed) next();
    };
  }

  const Duration limit_;
  asio::io_context io_;
  beast::basic_stream<Protocol> stream_{io_};
  beast::flat_buffer buffer_;
  Answer answer_;
  beast::error_code failed_;
};

Answer send(const std::string& url, const Message& message, Duration limit) {
  if (url.starts_with(kUnix)) return Way<asio::local::stream_protocol>(limit).go(url.substr(kUnix.size()), message);
  const std::string address = url.substr(kPlain.size());
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  asio::io_context io;
  const auto found = asio::ip::tcp::resolver(io).resolve(host, address.substr(colon + 1));
  return Way<asio::ip::tcp>(limit).go(found.begin()->endpoint(), message);
}

Message message_of(const ClientRequest& request) {
  Message message(http::string_to_verb(request.method), request.path, 11);
  message.set(http::field::host, "lockstep");
  message.set(http::field::connection, "close");
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  message.prepare_payload();
  return message;
}

}  // namespace

Result<HttpResponse> ask(const std::string& url, const ClientRequest& request, Duration limit) {
  if (!url.starts_with(kUnix) && !url.starts_with(kPlain)) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[serve] cannot ask {}: found a server that is not reached by plain HTTP, expected "
                             "http://HOST:PORT or unix:PATH; ask it with curl",
                             url)};
  }
  try {
    Answer answer = send(url, message_of(request), limit);
    return HttpResponse{.status = static_cast<int>(answer.result_int()), .body = std::move(answer.body())};
  } catch (const beast::system_error& failure) {
    const bool is_late = failure.code() == beast::error::timeout;
    return Error{is_late ? ErrorKind::kDeadlineExceeded : ErrorKind::kUnavailable,
                 fmt::format("[serve] no answer from {}: found '{}', expected one within {:.0f} s; is the server "
                             "running?",
                             url, failure.code().message(), to_seconds(limit))};
  }
}

}  // namespace lockstep::serve
