#include "tests/serve/load/load_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "tests/serve/load/event_reader.h"

namespace lockstep::load {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 32;  // of an answer

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using SteadyClock = std::chrono::steady_clock;

double seconds_between(SteadyClock::time_point begin, SteadyClock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// One request on a connection of its own.
class Turn : public std::enable_shared_from_this<Turn> {
 public:
  using OnEnd = std::function<void(TurnRecord, std::string answer)>;

  Turn(asio::io_context& context, TurnRecord record, OnEnd on_end)
      : socket_(context), record_(std::move(record)), on_end_(std::move(on_end)) {
    parser_.body_limit(kMostBytes);
  }

  void start(const tcp::endpoint& server, LoadApi api, const std::string& host, std::string body) {
    begin_ = SteadyClock::now();
    request_ = {http::verb::post, api == LoadApi::kChat ? "/v1/chat/completions" : "/v1/completions", 11};
    request_.set(http::field::host, host);
    request_.set(http::field::content_type, "application/json");
    request_.keep_alive(false);
    request_.body() = std::move(body);
    request_.prepare_payload();
    socket_.async_connect(server, [self = shared_from_this()](const error_code& error) {
      if (error) return self->fail(error.message());
      self->socket_.set_option(tcp::no_delay(true));
      self->send();
    });
  }

  /// The record of a turn that has not ended.
  TurnRecord unfinished() const {
    TurnRecord record = record_;
    record.error = "it did not end before the deadline";
    return record;
  }

 private:
  void send() {
    http::async_write(socket_, request_, [self = shared_from_this()](const error_code& error, size_t) {
      if (error) return self->fail(error.message());
      self->read();
    });
  }

  void read() {
    http::async_read_some(socket_, buffer_, parser_, [self = shared_from_this()](const error_code& error, size_t) {
      if (error && error != http::error::end_of_stream) return self->fail(error.message());
      self->on_bytes();
    });
  }

  void on_bytes() {
    record_.status = parser_.is_header_done() ? parser_.get().result_int() : 0;
    if (record_.status == 200) {
      take_events(std::exchange(parser_.get().body(), {}));
    }
    if (!parser_.is_done()) return read();
    if (record_.status != 200) return fail(parser_.get().body());
    if (!is_complete_ && record_.error.empty()) record_.error = "the stream ended without [DONE]";
    end();
  }

  void take_events(const std::string& bytes) {
    const auto now = SteadyClock::now();
    for (const std::string& data : reader_.put(bytes)) {
      StreamEvent event = read_event(data);
      is_complete_ = is_complete_ || event.is_end;
      if (!event.error.empty()) record_.error = event.error;
      if (event.completion_tokens >= 0) counted_tokens_ = event.completion_tokens;
      if (event.prompt_tokens >= 0) record_.prompt_tokens = event.prompt_tokens;
      record_.cached_tokens = std::max(record_.cached_tokens, event.cached_tokens);
      if (event.text.empty()) continue;
      if (record_.events++ == 0) {
        record_.ttft_s = seconds_between(begin_, now);
      } else {
        record_.gaps_s.push_back(seconds_between(last_, now));
      }
      last_ = now;
      answer_ += event.text;
    }
  }

  void fail(const std::string& why) {
    if (record_.error.empty()) record_.error = why.empty() ? "no answer" : why.substr(0, 300);
    end();
  }

  void end() {
    record_.wall_s = seconds_between(begin_, SteadyClock::now());
    record_.tokens = counted_tokens_ >= 0 ? counted_tokens_ : record_.events;
    error_code ignored;
    socket_.close(ignored);
    on_end_(std::move(record_), std::move(answer_));
  }

  tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  EventReader reader_;
  TurnRecord record_;
  OnEnd on_end_;
  SteadyClock::time_point begin_, last_;
  std::string answer_;
  int counted_tokens_ = -1;
  bool is_complete_ = false;
};

class Load {
 public:
  explicit Load(const LoadPlan& plan) : plan_(plan), server_(asio::ip::make_address(plan.host), plan.port) {}

  std::vector<TurnRecord> run() {
    begin_ = SteadyClock::now();
    for (const LoadGroup& group : plan_.groups) begin_group(group);
    context_.run_until(
        begin_ + std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(plan_.deadline_s)));
    for (const auto& [turn, open] : open_) {
      if (const auto left = open.lock()) records_.push_back(left->unfinished());
    }
    return std::move(records_);
  }

 private:
  /// A conversation, and how many of its stream follow it.
  struct Place {
    const LoadGroup* group;
    int conversation, following;
  };

  void begin_group(const LoadGroup& group) {
    for (size_t k = 0; k < group.starts_s.size(); ++k) at(group.starts_s[k], {&group, static_cast<int>(k), 0});
    if (!group.starts_s.empty()) return;
    for (int stream = 0; stream < group.streams; ++stream) at(group.start_s, {&group, stream, group.requests - 1});
  }

  void at(double second, Place place) {
    const auto timer = std::make_shared<asio::steady_timer>(context_);
    timer->expires_at(begin_ +
                      std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(second)));
    timer->async_wait([this, timer, place](const error_code&) { begin_conversation(place); });
  }

  void begin_conversation(Place place) {
    const auto& bodies = place.group->bodies;
    begin_turn(place, 0, bodies[static_cast<size_t>(place.conversation) % bodies.size()]);
  }

  void begin_turn(Place place, int turn, const std::string& body) {
    TurnRecord record{.group = place.group->name,
                      .conversation = place.conversation,
                      .turn = turn,
                      .started_s = seconds_between(begin_, SteadyClock::now())};
    const uint64_t number = next_++;
    const auto request = std::make_shared<Turn>(
        context_, std::move(record), [this, place, turn, body, number](TurnRecord ended, const std::string& answer) {
          open_.erase(number);
          const bool is_good = ended.error.empty();
          records_.push_back(std::move(ended));
          go_on(place, turn, is_good, body, answer);
        });
    open_[number] = request;
    request->start(server_, place.group->api, plan_.host, body);
  }

  void go_on(Place place, int turn, bool is_good, const std::string& body, const std::string& answer) {
    const auto& turns = place.group->turns;
    if (is_good && static_cast<size_t>(turn) < turns.size()) {
      return begin_turn(place, turn + 1, next_body(place.group->api, body, answer, turns[static_cast<size_t>(turn)]));
    }
    if (place.following == 0) return;
    begin_conversation({place.group, place.conversation + place.group->streams, place.following - 1});
  }

  const LoadPlan& plan_;
  tcp::endpoint server_;
  asio::io_context context_{1};
  SteadyClock::time_point begin_;
  std::vector<TurnRecord> records_;
  std::map<uint64_t, std::weak_ptr<Turn>> open_;
  uint64_t next_ = 0;
};

}  // namespace

std::vector<TurnRecord> run_load(const LoadPlan& plan) { return Load(plan).run(); }

}  // namespace lockstep::load
