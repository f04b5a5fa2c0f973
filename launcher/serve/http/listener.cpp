#include "launcher/serve/http/listener.h"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <type_traits>
#include <utility>

#include "launcher/serve/http/asio_loop.h"

namespace lockstep::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Local = asio::local::stream_protocol;
using Socket = asio::generic::stream_protocol::socket;  // of any family
using TlsStream = asio::ssl::stream<Socket>;

constexpr auto kAcceptPause = std::chrono::milliseconds(100);

bool is_end(const error_code& error) {
  return error == asio::error::eof || error == asio::ssl::error::stream_truncated;
}

template <typename Stream>
class SocketStream final : public ByteStream {
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;

 public:
  template <typename... Arguments>
  explicit SocketStream(Arguments&&... arguments) : stream_(std::forward<Arguments>(arguments)...) {}

  void open(OnDone done) override {
    if constexpr (kTls) {
      stream_.async_handshake(asio::ssl::stream_base::server, [done = std::move(done)](error_code e) { done(e); });
    } else {
      done({});
    }
  }

  void read(std::span<char> to, OnBytes done) override {
    stream_.async_read_some(asio::buffer(to.data(), to.size()),
                            [done = std::move(done)](const error_code& error, size_t bytes) {
                              is_end(error) ? done({}, 0) : done(error, bytes);
                            });
  }

  void write(std::string_view bytes, OnBytes done) override {
    stream_.async_write_some(asio::buffer(bytes.data(), bytes.size()),
                             [done = std::move(done)](const error_code& e, size_t sent) { done(e, sent); });
  }

  void finish_writing(OnDone done) override {
    if constexpr (kTls) {
      stream_.async_shutdown([this, done = std::move(done)](const error_code& error) {
        end_of_writing();
        done(error);
      });
    } else {
      end_of_writing();
      asio::post(stream_.get_executor(), [done = std::move(done)] { done({}); });
    }
  }

  void wait_until_gone(OnDone gone) override {
    stream_.lowest_layer().async_wait(asio::socket_base::wait_error,
                                      [gone = std::move(gone)](const error_code& error) { gone(error); });
  }

  void close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
  void end_of_writing() {
    error_code ignored;
    stream_.lowest_layer().shutdown(asio::socket_base::shutdown_send, ignored);
  }

  Stream stream_;
};

Error cannot(ErrorKind kind, std::string what, std::string found, std::string fix) {
  return {kind, "[serve] cannot " + std::move(what) + ": found " + std::move(found) + "; " + std::move(fix)};
}

// --- TLS

Result<std::shared_ptr<asio::ssl::context>> open_tls(const HttpOptions& options) {
  if (options.tls_certificate.empty()) return std::shared_ptr<asio::ssl::context>();
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1 | asio::ssl::context::no_compression);
  error_code error;
  context->use_certificate_chain_file(options.tls_certificate, error);
  if (error) {
    return cannot(ErrorKind::kInvalidArgument, "read the certificate " + options.tls_certificate,
                  "\"" + error.message() + "\", expected certificates in PEM form, the server's first",
                  "name a readable file with --tls-cert");
  }
  context->use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
  if (error) {
    return cannot(ErrorKind::kInvalidArgument, "use the key " + options.tls_key,
                  "\"" + error.message() + "\", expected the certificate's private key in PEM form without a password",
                  "name a readable file with --tls-key");
  }
  return context;
}

// --- accepted sockets

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(endpoint.port());
}

std::string peer_of(const tcp::socket& socket) {
  error_code gone;
  const auto endpoint = socket.remote_endpoint(gone);
  return gone ? "" : text_of(endpoint);
}

std::string peer_of(const Local::socket&) { return ""; }

template <int kName>
using TcpOption = asio::detail::socket_option::integer<IPPROTO_TCP, kName>;

/// Small responses leave at once. The kernel ends a connection whose host is gone: after `write_time` when it has bytes
/// to send, else after half a minute of probes.
void prepare(tcp::socket& socket, Duration write_time) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(write_time).count();
  socket.set_option(TcpOption<TCP_USER_TIMEOUT>(static_cast<int>(milliseconds)), ignored);
  socket.set_option(TcpOption<TCP_KEEPIDLE>(15), ignored);
  socket.set_option(TcpOption<TCP_KEEPINTVL>(5), ignored);
  socket.set_option(TcpOption<TCP_KEEPCNT>(3), ignored);
}

void prepare(Local::socket&, Duration) {}

/// Accepts until it is closed.
template <typename Protocol>
struct Acceptor : std::enable_shared_from_this<Acceptor<Protocol>> {
  explicit Acceptor(asio::io_context& context) : socket(context), pause(context) {}

  void accept_next() {
    socket.async_accept([self = this->shared_from_this()](const error_code& error, typename Protocol::socket client) {
      if (!self->socket.is_open()) return;
      if (!error) self->take(std::move(client));
      if (error && error != asio::error::connection_aborted) return self->accept_later();
      self->accept_next();
    });
  }

  /// The process has no free descriptor; some come back when connections end.
  void accept_later() {
    pause.expires_after(kAcceptPause);
    pause.async_wait([self = this->shared_from_this()](const error_code&) {
      if (self->socket.is_open()) self->accept_next();
    });
  }

  void take(typename Protocol::socket client) {
    prepare(client, write_time);
    std::string peer = peer_of(client);
    Socket any(std::move(client));
    if (tls) {
      on_connection(std::make_unique<SocketStream<TlsStream>>(std::move(any), *tls), std::move(peer));
    } else {
      on_connection(std::make_unique<SocketStream<Socket>>(std::move(any)), std::move(peer));
    }
  }

  typename Protocol::acceptor socket;
  asio::steady_timer pause;
  std::shared_ptr<asio::ssl::context> tls;
  Duration write_time{};
  OnConnection on_connection;
};

template <typename Protocol>
class SocketListener final : public Listener {
 public:
  SocketListener(std::shared_ptr<Acceptor<Protocol>> acceptor, std::string address, uint16_t port)
      : acceptor_(std::move(acceptor)), address_(std::move(address)), port_(port) {}

  ~SocketListener() override {
    error_code ignored;
    acceptor_->socket.close(ignored);
    acceptor_->pause.cancel(ignored);
    if constexpr (std::is_same_v<Protocol, Local>) {
      std::error_code missing;
      std::filesystem::remove(address_.substr(std::string_view("unix:").size()), missing);
    }
  }

  std::string address() const override { return address_; }
  uint16_t port() const override { return port_; }

 private:
  const std::shared_ptr<Acceptor<Protocol>> acceptor_;  // shared with its pending accept
  const std::string address_;
  const uint16_t port_;
};

// --- where to listen

Result<std::unique_ptr<Listener>> listen_tcp(asio::io_context& context, const HttpOptions& options,
                                             std::shared_ptr<Acceptor<tcp>> acceptor) {
  const std::string place = options.host + ":" + std::to_string(options.port);
  error_code error;
  const auto found = tcp::resolver(context).resolve(options.host, std::to_string(options.port),
                                                    tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return cannot(ErrorKind::kInvalidArgument, "listen on " + place,
                  "\"" + error.message() + "\", expected an address of this host", "name one with --host");
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  auto& socket = acceptor->socket;
  socket.open(endpoint.protocol(), error);
  if (!error) socket.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.protocol() == tcp::v6()) socket.set_option(asio::ip::v6_only(false), error);
  if (!error) socket.bind(endpoint, error);
  if (!error) socket.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return cannot(ErrorKind::kUnavailable, "listen on " + place, "\"" + error.message() + "\", expected a free port",
                  "choose another with --port, or --port 0 for any free one");
  }
  const tcp::endpoint bound = socket.local_endpoint();
  acceptor->accept_next();
  return std::make_unique<SocketListener<tcp>>(
      std::move(acceptor), (options.tls_certificate.empty() ? "http://" : "https://") + text_of(bound), bound.port());
}

/// Removes the socket of a server that has ended; fails if the path is something else or in use.
Result<void> remove_stale_socket(asio::io_context& context, const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  if (!std::filesystem::exists(status)) return ok();
  if (!std::filesystem::is_socket(status)) {
    return cannot(ErrorKind::kInvalidArgument, "listen on " + path, "a file, expected a socket or nothing",
                  "name another path with --unix-socket");
  }
  Local::socket probe(context);
  error_code refused;
  probe.connect(Local::endpoint(path), refused);
  if (!refused) {
    return cannot(ErrorKind::kUnavailable, "listen on " + path, "a server that answers there, expected none",
                  "stop it, or name another path with --unix-socket");
  }
  std::filesystem::remove(path, error);
  return ok();
}

Result<std::unique_ptr<Listener>> listen_unix(asio::io_context& context, const HttpOptions& options,
                                              std::shared_ptr<Acceptor<Local>> acceptor) {
  const std::string& path = options.unix_socket;
  constexpr size_t kLongestPath = 107;  // sun_path, with its zero
  if (path.size() > kLongestPath) {
    return cannot(ErrorKind::kInvalidArgument, "listen on " + path,
                  std::to_string(path.size()) + " bytes, expected at most " + std::to_string(kLongestPath),
                  "name a shorter path with --unix-socket");
  }
  LOCKSTEP_TRY_VOID(remove_stale_socket(context, path));
  auto& socket = acceptor->socket;
  error_code error;
  socket.open(Local(), error);
  if (!error) socket.bind(Local::endpoint(path), error);
  std::error_code mode_error;
  if (!error) {  // before listen(): until then nothing can connect
    using std::filesystem::perms;
    std::filesystem::permissions(path, perms::owner_read | perms::owner_write, mode_error);
  }
  if (!error && !mode_error) socket.listen(asio::socket_base::max_listen_connections, error);
  if (error || mode_error) {
    return cannot(ErrorKind::kUnavailable, "listen on " + path,
                  "\"" + (error ? error.message() : mode_error.message()) + "\", expected a path in a writable folder",
                  "name another with --unix-socket");
  }
  acceptor->accept_next();
  return std::make_unique<SocketListener<Local>>(std::move(acceptor), "unix:" + path, 0);
}

template <typename Protocol>
std::shared_ptr<Acceptor<Protocol>> make_acceptor(asio::io_context& context, const HttpOptions& options,
                                                  std::shared_ptr<asio::ssl::context> tls, OnConnection on_connection) {
  auto acceptor = std::make_shared<Acceptor<Protocol>>(context);
  acceptor->tls = std::move(tls);
  acceptor->write_time = options.limits.write_time;
  acceptor->on_connection = std::move(on_connection);
  return acceptor;
}

}  // namespace

Result<std::unique_ptr<Listener>> listen(RunningLoop& loop, const HttpOptions& options, OnConnection on_connection) {
  asio::io_context& context = dynamic_cast<AsioLoop&>(loop).context();
  LOCKSTEP_TRY(auto tls, open_tls(options));
  if (options.unix_socket.empty()) {
    return listen_tcp(context, options, make_acceptor<tcp>(context, options, std::move(tls), std::move(on_connection)));
  }
  return listen_unix(context, options,
                     make_acceptor<Local>(context, options, std::move(tls), std::move(on_connection)));
}

}  // namespace lockstep::serve
