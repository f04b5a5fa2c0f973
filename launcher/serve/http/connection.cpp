#include "launcher/serve/http/connection.h"

#include <exception>
#include <utility>

#include "launcher/serve/http/connection_exchange.h"
#include "launcher/serve/http/cors.h"

namespace lockstep::serve {
namespace {

/// Bytes of further requests that are read while one is handled.
constexpr size_t kMostPipelined = 64 << 10;
constexpr size_t kMostZeros = 8;
constexpr Duration kFirstProbePause = std::chrono::milliseconds(250);

bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

}  // namespace

Connection::Connection(std::shared_ptr<ServerState> server, std::unique_ptr<ByteStream> stream, std::string peer)
    : server_(std::move(server)),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      limits_(server_->options.limits),
      reader_(limits_, [this](HttpRequest& head) { return accepts(head); }),
      unfinished_(server_->unfinished_bytes) {
  server_->connections.insert(this);
}

Connection::~Connection() { server_->connections.erase(this); }

// --- the connection's life

void Connection::start() {
  after(limits_.request_time, &Connection::close);
  stream_->open([self = shared_from_this()](std::error_code error) {
    if (self->phase_ != Phase::kHandshake) return;
    if (error) return self->close();
    if (self->is_turned_away_) {
      return self->refuse({503, "too_many_connections", "the server has no free connection; retry later"});
    }
    self->begin_reading();
  });
}

void Connection::turn_away() {
  is_turned_away_ = true;
  start();
}

void Connection::drain() {
  if (phase_ == Phase::kHandshake) return close();
  if (phase_ == Phase::kReading && !reader_.has_begun()) linger();
}

void Connection::linger() {
  if (phase_ == Phase::kClosed || is_finishing_) return;
  phase_ = Phase::kLingering;
  is_finishing_ = true;
  after(limits_.linger_time, &Connection::close);
  stream_->finish_writing([self = shared_from_this()](std::error_code) {
    if (self->input_ended_) self->close();
  });
  read_more();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  phase_ = Phase::kClosed;
  timer_.reset();
  write_timer_.reset();
  unfinished_.set(0);
  reader_.end();
  stream_->close();
  server_->connections.erase(this);
  if (!std::exchange(is_open_, false)) return;
  --server_->open_exchanges;
  ++server_->counters.disconnects;
  notify(&ConnectionExchange::on_gone);
}

void Connection::notify(void (ConnectionExchange::*event)()) {
  const auto exchange = exchange_.lock();
  if (!exchange) return;
  try {
    (exchange.get()->*event)();
  } catch (const std::exception& failure) {
    server_->report(fmt::format("[serve] request {}: a function of the handler failed: {}; report this as a bug", id_,
                                failure.what()));
  }
}

void Connection::after(Duration delay, void (Connection::*call)()) {
  timer_ = server_->loop.after(delay, [weak = weak_from_this(), call] {
    if (const auto self = weak.lock()) (self.get()->*call)();
  });
}

// --- requests

void Connection::read_more() {
  if (is_reading_ || input_ended_ || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kHandling && reader_.buffered() >= kMostPipelined) return watch_client();
  is_reading_ = true;
  stream_->read(input_, [self = shared_from_this()](std::error_code error, size_t bytes) {
    self->is_reading_ = false;
    self->on_read(error, bytes);
  });
}

void Connection::on_read(std::error_code error, size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  if (error) return close();
  if (bytes == 0) {
    input_ended_ = true;
    return on_end_of_input();
  }
  server_->counters.received_bytes += bytes;
  if (phase_ == Phase::kLingering) return read_more();
  reader_.append({input_.data(), bytes});
  if (phase_ == Phase::kReading) return read_request();
  read_more();
}

void Connection::on_end_of_input() {
  if (phase_ == Phase::kLingering && is_finishing_) return close();
  if (phase_ == Phase::kReading) {
    if (!reader_.has_begun()) return linger();
    return refuse({400, "bad_request", "the request ended before it was complete"});
  }
  if (phase_ != Phase::kHandling) return;
  watch_client();
  probe_client(kFirstProbePause);
}

void Connection::begin_reading() {
  phase_ = Phase::kReading;
  timer_.reset();
  times_request_ = false;
  read_request();
}

void Connection::read_request() {
  const RequestReader::State state = reader_.advance();
  unfinished_.set(reader_.body_bytes());
  if (state == RequestReader::State::kComplete) return give_to_handler();
  if (early_answer_) return answer_last(*early_answer_);
  if (state == RequestReader::State::kRefused) return refuse(reader_.refusal());
  if (server_->unfinished_bytes > limits_.unfinished_bytes) {
    return refuse({503, "too_many_bytes", "the server reads too many large requests now; retry later"});
  }
  if (input_ended_) return on_end_of_input();
  if (server_->is_draining && !reader_.has_begun()) return linger();
  if (reader_.take_continue()) {
    output_ += kContinue;
    send_soon();
  }
  wait_for_request();
}

void Connection::wait_for_request() {
  if (reader_.has_begun() && !times_request_) {
    times_request_ = true;
    after(limits_.request_time, &Connection::refuse_slow_request);
  } else if (!timer_) {
    after(limits_.idle_time, &Connection::linger);
  }
  read_more();
}

void Connection::refuse_slow_request() {
  refuse({408, "request_timeout",
          fmt::format("the request was not complete after {:g} s", to_seconds(limits_.request_time))});
}

bool Connection::accepts(HttpRequest& head) {
  head.peer = peer_;
  id_ = head.id = server_->ids.id_for(head);
  is_head_ = head.method == "HEAD";
  const bool is_preflight = !head.announces_body() && preflight_response(server_->options.cors_origin, head);
  if (!server_->options.refuse_head || is_preflight) return true;
  try {
    early_answer_ = server_->options.refuse_head(head);
  } catch (const std::exception& failure) {
    report_handler(failure.what());
    early_answer_ = failed_response();
  }
  if (early_answer_) ++server_->counters.requests;
  return !early_answer_;
}

void Connection::give_to_handler() {
  phase_ = Phase::kHandling;
  timer_.reset();
  ReceivedRequest received = reader_.next_request();
  may_keep_alive_ = received.keep_alive;
  is_http_1_0_ = received.is_http_1_0;
  has_head_ = has_ended_ = false;
  is_open_ = true;
  ++server_->open_exchanges;
  const auto exchange = std::make_shared<ConnectionExchange>(shared_from_this(), std::move(received.request));
  exchange_ = exchange;
  read_more();
  if (input_ended_) on_end_of_input();
  if (auto preflight = preflight_response(server_->options.cors_origin, exchange->request())) {
    return exchange->respond(*std::move(preflight));
  }
  ++server_->counters.requests;
  call_handler(exchange);
}

void Connection::call_handler(const std::shared_ptr<ConnectionExchange>& exchange) {
  try {
    return server_->handler(exchange);
  } catch (const std::exception& failure) {
    report_handler(failure.what());
  } catch (...) {
    report_handler("unknown exception");
  }
  exchange->fail();
}

void Connection::report_handler(std::string_view failure) const {
  server_->report(fmt::format("[serve] request {}: the handler failed: {}; report this as a bug", id_, failure));
}

void Connection::refuse(const HttpRefusal& refusal) {
  ++server_->counters.refused;
  is_head_ = false;
  id_ = server_->ids.id_for({});
  if (server_->options.on_refused) server_->options.on_refused({id_, peer_, refusal.status, refusal.code});
  HttpResponse response = error_response(refusal);
  if (refusal.status == 503) response.headers.emplace_back("Retry-After", "1");
  answer_last(response);
}

void Connection::answer_last(const HttpResponse& response) {
  phase_ = Phase::kLingering;
  timer_.reset();
  unfinished_.set(0);
  reader_.end();
  may_keep_alive_ = false;
  add_head(response, BodyFraming::kLength);
  if (!is_head_) output_ += response.body;
  has_ended_ = true;
  send_soon();
}

// --- responses

void Connection::respond(HttpResponse response) {
  if (phase_ != Phase::kHandling) return;
  add_head(response, has_no_body(response.status) ? BodyFraming::kNone : BodyFraming::kLength);
  if (framing_ == BodyFraming::kLength && !is_head_) output_ += response.body;
  has_ended_ = true;
  send_soon();
}

void Connection::begin_stream(HttpResponse head) {
  if (phase_ != Phase::kHandling) return;
  add_head(head, is_http_1_0_ ? BodyFraming::kUntilClose : BodyFraming::kChunked);
  send_soon();
}

void Connection::write(std::string_view bytes) {
  if (phase_ != Phase::kHandling || is_head_) return;
  body_ += bytes;
  send_soon();
}

void Connection::end_stream() {
  if (phase_ != Phase::kHandling) return;
  add_chunk();
  if (framing_ == BodyFraming::kChunked && !is_head_) output_ += kLastChunk;
  has_ended_ = true;
  send_soon();
}

void Connection::abandon_stream() {
  if (phase_ != Phase::kHandling) return;
  add_chunk();
  keep_alive_ = false;
  has_ended_ = true;
  send_soon();
}

void Connection::add_head(const HttpResponse& response, BodyFraming framing) {
  framing_ = framing;
  const bool is_last = server_->closes_after_answers || (input_ended_ && reader_.buffered() == 0);
  keep_alive_ = may_keep_alive_ && !is_last && framing != BodyFraming::kUntilClose;
  const std::string head = response_head(response, {.framing = framing,
                                                    .length = response.body.size(),
                                                    .keep_alive = keep_alive_,
                                                    .request_id = id_,
                                                    .date = server_->date.now(),
                                                    .cors_origin = server_->options.cors_origin});
  output_ += std::string_view(head).substr(std::exchange(probe_bytes_, 0));
  has_head_ = true;
}

void Connection::add_chunk() {
  if (body_.empty()) return;
  output_ += framing_ == BodyFraming::kChunked ? chunk(body_) : body_;
  body_.clear();
  probe_bytes_ = 0;
}

// --- writing

size_t Connection::unsent() const { return body_.size() + output_.size() + writing_.size() - written_; }

/// What is written in one turn of the loop is sent together.
void Connection::send_soon() {
  if (std::exchange(will_send_, true)) return;
  server_->loop.post([self = shared_from_this()] {
    self->will_send_ = false;
    self->send();
  });
}

void Connection::send() {
  if (phase_ == Phase::kClosed || !writing_.empty()) return;
  add_chunk();
  if (output_.empty()) return on_all_sent();
  writing_.swap(output_);
  write_more();
}

void Connection::write_more() {
  write_timer_ = server_->loop.after(limits_.write_time, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close();
  });
  stream_->write(std::string_view(writing_).substr(written_),
                 [self = shared_from_this()](std::error_code error, size_t bytes) { self->on_written(error, bytes); });
}

void Connection::on_written(std::error_code error, size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  if (error) return close();
  server_->counters.sent_bytes += bytes;
  written_ += bytes;
  const bool is_written = written_ == writing_.size();
  if (is_written) {
    writing_.clear();
    written_ = 0;
    write_timer_.reset();
  } else {
    write_more();
  }
  notify(&ConnectionExchange::on_progress);
  if (is_written) send();
}

void Connection::on_all_sent() {
  if (phase_ == Phase::kLingering) return linger();
  if (phase_ != Phase::kHandling || !has_ended_) return;
  if (const auto exchange = exchange_.lock()) exchange->detach();
  exchange_.reset();
  is_open_ = false;
  --server_->open_exchanges;
  if (!keep_alive_) return linger();
  begin_reading();
}

// --- clients that leave

void Connection::watch_client() {
  if (std::exchange(is_watched_, true)) return;
  stream_->wait_until_gone([self = shared_from_this()](std::error_code) {
    self->is_watched_ = false;
    self->close();
  });
}

void Connection::probe_client(Duration pause) {
  if (phase_ != Phase::kHandling || has_ended_) return;
  if (unsent() == 0 && add_probe()) send_soon();
  timer_ = server_->loop.after(pause, [weak = weak_from_this(), pause] {
    if (const auto self = weak.lock()) self->probe_client(2 * pause);
  });
}

/// Adds a byte that the response begins or goes on with, whatever it will be.
bool Connection::add_probe() {
  if (!has_head_ && probe_bytes_ < kHeadPrefix.size()) {
    output_ += kHeadPrefix[probe_bytes_++];
    return true;
  }
  if (has_head_ && framing_ == BodyFraming::kChunked && !is_head_ && probe_bytes_ < kMostZeros) {
    output_ += '0';
    ++probe_bytes_;
    return true;
  }
  return false;
}

}  // namespace lockstep::serve
