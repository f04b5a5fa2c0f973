// The parser asserts that a last chunk does not arrive in two pieces; without the assertion it reads one correctly.
#define BOOST_DISABLE_ASSERTS

#include "launcher/serve/http/request_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::serve {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

struct RequestReader::Parsing {
  Parsing(const HttpLimits& its_limits, OnHead its_on_head)
      : limits(its_limits), on_head(std::move(its_on_head)), scanner(its_limits) {}

  const HttpLimits limits;
  const OnHead on_head;
  State state = State::kIncomplete;
  HttpRefusal refusal;
  std::string buffer;
  size_t begin = 0;  // of the bytes not yet read
  HeadScanner scanner;
  std::optional<http::request_parser<http::string_body>> parser;  // from the end of a head
  ReceivedRequest received;
  bool continue_is_due = false;

  /// The parser reads a quoted value of a chunk's extension past the end of its line, so quotes are refused there.
  std::function<void(uint64_t, string_view, error_code&)> refuse_quotes = [](uint64_t, string_view extensions,
                                                                             error_code& error) {
    if (extensions.find('"') != string_view::npos) error = http::error::bad_chunk_extension;
  };

  static bool has_quote_in_chunk_line(std::string_view window) {
    if (window.starts_with("\r\n")) window.remove_prefix(2);  // ends the chunk before
    const auto end = window.find("\r\n");
    return end != std::string_view::npos && window.substr(0, end).find('"') != std::string_view::npos;
  }

  std::string_view unread() const { return std::string_view(buffer).substr(begin); }

  void refuse(HttpRefusal why) {
    refusal = std::move(why);
    state = State::kRefused;
  }

  /// Gives unread bytes to the parser; what it refuses here is form (400) or the size of the body (413).
  bool parse(std::string_view bytes) {
    error_code error;
    begin += parser->put(boost::asio::buffer(bytes.data(), bytes.size()), error);
    if (!error || error == http::error::need_more) return true;
    if (error == http::error::body_limit) {
      refuse({413, "body_too_large", "the body is larger than " + std::to_string(limits.body_bytes) + " bytes"});
    } else {
      refuse({400, "bad_request", "the request is malformed: " + error.message()});
    }
    return false;
  }

  /// An empty line before a request is allowed, as some clients end a body with one.
  void skip_empty_lines() {
    while (unread().starts_with("\r\n")) begin += 2;
  }

  bool read_head() {
    if (!scanner.has_begun()) skip_empty_lines();
    if (!scanner.has_begun() && unread() == "\r") return false;
    if (auto refused = scanner.scan(unread())) return refuse(*std::move(refused)), false;
    if (scanner.size() == 0) return false;
    const std::string_view head = unread().substr(0, scanner.size());
    if (auto refused = check_head(head)) return refuse(*std::move(refused)), false;
    parser.emplace();
    parser->eager(true);
    parser->header_limit(static_cast<uint32_t>(limits.head_bytes));
    parser->body_limit(limits.body_bytes);
    parser->on_chunk_header(refuse_quotes);
    return parse(head) && take_head();
  }

  /// Keeps the head apart from the message, to which the parser adds the trailers.
  bool take_head() {
    const auto& head = parser->get();
    received = {};
    HttpRequest& request = received.request;
    request.method = std::string(head.method_string());
    received.keep_alive = head.keep_alive();
    received.is_http_1_0 = head.version() == 10;
    for (const auto& field : head) {
      std::string name(field.name_string());
      for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      request.headers.emplace_back(std::move(name), std::string(field.value()));
    }
    continue_is_due = request.header("expect") && !received.is_http_1_0 && !parser->is_done();
    if (!take_target(std::string_view(head.target().data(), head.target().size()))) return false;
    if (on_head && !on_head(request)) state = State::kRefused;
    return state == State::kIncomplete;
  }

  /// "/path?query", "http://host/path?query", or "*".
  bool take_target(std::string_view target) {
    for (const std::string_view scheme : {"http://", "https://"}) {
      if (!target.starts_with(scheme)) continue;
      const auto slash = target.find('/', scheme.size());
      target = slash == std::string_view::npos ? "/" : target.substr(slash);
    }
    const auto question = target.find('?');
    const auto path = percent_decoded(target.substr(0, question));
    const bool is_path = path && (path->starts_with("/") || *path == "*");
    if (!is_path) return refuse({400, "bad_request", "the target is not a path, or has a wrong % escape"}), false;
    received.request.path = *path;
    if (question != std::string_view::npos) received.request.query = std::string(target.substr(question + 1));
    return true;
  }

  /// The parser takes the line of a chunk, and the trailers, only whole: it sees no more bytes at once than these may
  /// have, so that the limit does not depend on the pieces.
  void read_body() {
    while (!parser->is_done()) {
      const std::string_view window = unread().substr(0, limits.head_bytes);
      if (window.empty()) return;
      continue_is_due = false;
      const size_t before = begin;
      if (!parse(window)) return;
      if (begin > before) continue;
      if (has_quote_in_chunk_line(window)) return refuse({400, "bad_request", "a quoted chunk extension"});
      if (window.size() == limits.head_bytes) {
        refuse({431, "header_too_large",
                "the trailers or a chunk's line are larger than " + std::to_string(limits.head_bytes) + " bytes"});
      }
      return;
    }
    finish();
  }

  void finish() {
    received.request.body = std::move(parser->get().body());
    parser.reset();
    scanner = HeadScanner(limits);
    continue_is_due = false;
    state = State::kComplete;
  }
};

RequestReader::RequestReader(const HttpLimits& limits, OnHead on_head)
    : parsing_(std::make_unique<Parsing>(limits, std::move(on_head))) {}
RequestReader::~RequestReader() = default;

void RequestReader::append(std::string_view bytes) {
  if (parsing_->begin > 0) {
    parsing_->buffer.erase(0, parsing_->begin);
    parsing_->begin = 0;
  }
  parsing_->buffer += bytes;
}

RequestReader::State RequestReader::advance() {
  Parsing& parsing = *parsing_;
  if (parsing.state != State::kIncomplete) return parsing.state;
  if (parsing.parser || parsing.read_head()) parsing.read_body();
  return parsing.state;
}

bool RequestReader::has_begun() const { return parsing_->parser.has_value() || !parsing_->unread().empty(); }

bool RequestReader::take_continue() { return std::exchange(parsing_->continue_is_due, false); }

size_t RequestReader::body_bytes() const { return parsing_->parser ? parsing_->parser->get().body().size() : 0; }

size_t RequestReader::buffered() const { return parsing_->unread().size(); }

ReceivedRequest RequestReader::next_request() {
  LOCKSTEP_CHECK(parsing_->state == State::kComplete);
  parsing_->state = State::kIncomplete;
  return std::move(parsing_->received);
}

const HttpRefusal& RequestReader::refusal() const { return parsing_->refusal; }

void RequestReader::end() {
  parsing_->state = State::kRefused;
  parsing_->parser.reset();
  std::string().swap(parsing_->buffer);
  parsing_->begin = 0;
}

}  // namespace lockstep::serve
