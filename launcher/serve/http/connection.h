// One client's connection: reads a request, gives it to the handler, sends the response, and so on until one side ends.
//
//            handshake ─► reading ─► handling ─► sent ─┬─► reading            (keep-alive)
//                            │          │              └─► lingering ─► closed
//                            └──────────┴─ refusal ────────────┘      (also by the head alone: RefuseHead)
//   A broken connection or a client that left closes it in any phase.
//
// While a request is handled, one read is pending: it notices a client that leaves, and keeps pipelined requests. A
// client that ends only its own side (shutdown) must get its answer, but looks like one that left until the server
// sends something. So the server sends the first bytes that any answer has, one at a time: "H", "T", … of "HTTP/1.1 ",
// or a leading zero of a chunk's size. The system of a client that left replies with a reset.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "launcher/serve/http/byte_stream.h"
#include "launcher/serve/http/request_reader.h"
#include "launcher/serve/http/server_state.h"

namespace lockstep::serve {

class ConnectionExchange;

/// On the loop's thread. Kept alive by its pending reads and writes (shared_ptr: each has a share).
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerState> server, std::unique_ptr<ByteStream> stream, std::string peer);
  ~Connection();

  void start();
  /// Answers 503 and closes: too many connections.
  void turn_away();
  /// No request after the current one; closes at once if there is none.
  void drain();
  /// Closes now, without the rest of a response.
  void close();

  // For the exchange of the current request:
  void respond(HttpResponse response);
  void begin_stream(HttpResponse head);
  void write(std::string_view bytes);
  void end_stream();
  /// Ends a response that cannot be completed, so that the client notices.
  void abandon_stream();
  size_t unsent() const;
  EventLoop& loop() const { return server_->loop; }

 private:
  enum class Phase { kHandshake, kReading, kHandling, kLingering, kClosed };

  void read_more();
  void on_read(std::error_code error, size_t bytes);
  void on_end_of_input();
  void begin_reading();
  void read_request();
  void wait_for_request();
  void refuse_slow_request();
  /// Asks RefuseHead; its answer waits in early_answer_.
  bool accepts(HttpRequest& head);
  void give_to_handler();
  /// Calls functions that the handler gave to the exchange; a failure is logged.
  void notify(void (ConnectionExchange::*event)());
  void call_handler(const std::shared_ptr<ConnectionExchange>& exchange);
  void report_handler(std::string_view failure) const;
  void refuse(const HttpRefusal& refusal);
  /// Answers a request that is not given to the handler, and ends the connection.
  void answer_last(const HttpResponse& response);

  void add_head(const HttpResponse& response, BodyFraming framing);
  void add_chunk();
  void send_soon();
  void send();
  void write_more();
  void on_written(std::error_code error, size_t bytes);
  void on_all_sent();
  void linger();

  void watch_client();
  void probe_client(Duration pause);
  bool add_probe();
  void after(Duration delay, void (Connection::*call)());

  const std::shared_ptr<ServerState> server_;  // shared with the server, which may end first
  const std::unique_ptr<ByteStream> stream_;
  const std::string peer_;
  const HttpLimits& limits_;
  RequestReader reader_;
  UnfinishedBody unfinished_;
  std::optional<HttpResponse> early_answer_;  // to a head; none: the request is read
  Phase phase_ = Phase::kHandshake;
  std::unique_ptr<Timer> timer_;  // of the phase
  bool times_request_ = false;    // timer_ ends at the request's time, not at the idle time
  bool is_turned_away_ = false;

  std::array<char, 16 << 10> input_;
  bool is_reading_ = false;
  bool input_ended_ = false;
  bool is_watched_ = false;
  bool is_finishing_ = false;

  // The current request and its response.
  std::weak_ptr<ConnectionExchange> exchange_;  // owned by the handler
  bool is_open_ = false;                        // counted in open_exchanges
  bool may_keep_alive_ = false;                 // the client's wish
  bool is_http_1_0_ = false;
  bool is_head_ = false;  // HEAD: no body
  std::string id_;
  BodyFraming framing_ = BodyFraming::kNone;
  bool has_head_ = false;
  bool has_ended_ = false;
  bool keep_alive_ = false;
  size_t probe_bytes_ = 0;  // sent of kHeadPrefix, or zeros of a chunk's size

  std::string body_;     // of a stream, not yet framed
  std::string output_;   // not yet given to the socket
  std::string writing_;  // being written, from written_ on
  size_t written_ = 0;
  bool will_send_ = false;
  std::unique_ptr<Timer> write_timer_;
};

}  // namespace lockstep::serve
