#include "tests/runtime/cache/object_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "runtime/core/check.h"

namespace lockstep::cache {
namespace {

constexpr int kPatienceMs = 20'000;  // with a client that is slow because the machine is
constexpr int kLookAgainMs = 50;     // whether to leave

void send_all(int connection, const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t size = ::send(connection, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) return;
    sent += static_cast<size_t>(size);
  }
}

/// Receives more of the client's data; false at its end.
bool receive(int connection, std::string& text) {
  pollfd entry{.fd = connection, .events = POLLIN, .revents = 0};
  if (::poll(&entry, 1, kPatienceMs) <= 0) return false;
  std::array<char, 65536> piece;
  const ssize_t size = ::recv(connection, piece.data(), piece.size(), 0);
  if (size <= 0) return false;
  text.append(piece.data(), static_cast<size_t>(size));
  return true;
}

SeenRequest parse_head(const std::string& head) {
  SeenRequest request;
  size_t end = head.find("\r\n");
  const std::string line = head.substr(0, end);
  request.method = line.substr(0, line.find(' '));
  request.path = line.substr(request.method.size() + 1, line.rfind(' ') - request.method.size() - 1);
  while (end != std::string::npos && end + 2 < head.size()) {
    const size_t begin = end + 2;
    end = head.find("\r\n", begin);
    const std::string header = head.substr(begin, end - begin);
    const size_t colon = header.find(':');
    if (colon == std::string::npos) continue;
    std::string name = header.substr(0, colon);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    size_t value = colon + 1;
    while (value < header.size() && header[value] == ' ') ++value;
    request.headers[name] = header.substr(value);
  }
  return request;
}

std::optional<SeenRequest> read_request(int connection) {
  std::string text;
  size_t head = std::string::npos;
  while ((head = text.find("\r\n\r\n")) == std::string::npos) {
    if (!receive(connection, text)) return std::nullopt;
  }
  SeenRequest request = parse_head(text.substr(0, head));
  request.body = text.substr(head + 4);
  if (request.headers.contains("expect")) send_all(connection, "HTTP/1.1 100 Continue\r\n\r\n");
  const auto length = request.headers.find("content-length");
  const size_t size = length == request.headers.end() ? 0 : std::stoul(length->second);
  while (request.body.size() < size) {
    if (!receive(connection, request.body)) return std::nullopt;
  }
  return request;
}

std::string response(const char* status, const std::string& body, size_t length) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status, length, body);
}

std::string response(const char* status, const std::string& body) { return response(status, body, body.size()); }

}  // namespace

ObjectServer::ObjectServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  LOCKSTEP_CHECK(::bind(listener_, generic, size) == 0 && ::listen(listener_, 16) == 0);
  LOCKSTEP_CHECK(::getsockname(listener_, generic, &size) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

ObjectServer::~ObjectServer() {
  leaving_ = true;
  thread_.join();
  for (const int connection : hanging_) ::close(connection);
  ::close(listener_);
}

std::string ObjectServer::host() const { return fmt::format("127.0.0.1:{}", port_); }
std::string ObjectServer::address() const { return "http://" + host(); }

void ObjectServer::misbehave(std::string suffix, Misbehaviour how) {
  std::lock_guard lock(mutex_);
  misbehaviours_[std::move(suffix)] = how;
}

void ObjectServer::behave() {
  std::lock_guard lock(mutex_);
  misbehaviours_.clear();
}

std::map<std::string, std::string> ObjectServer::objects() const {
  std::lock_guard lock(mutex_);
  return objects_;
}

std::vector<SeenRequest> ObjectServer::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

void ObjectServer::forget_requests() {
  std::lock_guard lock(mutex_);
  requests_.clear();
}

void ObjectServer::serve() {
  while (!leaving_) {
    pollfd entry{.fd = listener_, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, kLookAgainMs) <= 0) continue;
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) answer(connection);
  }
}

void ObjectServer::answer(int connection) {
  const std::optional<SeenRequest> request = read_request(connection);
  if (!request) {
    ::close(connection);
    return;
  }
  std::lock_guard lock(mutex_);
  requests_.push_back(*request);
  answer_with(connection, *request);
}

void ObjectServer::answer_with(int connection, const SeenRequest& request) {
  const auto how = std::ranges::find_if(misbehaviours_, [&](const auto& m) { return request.path.ends_with(m.first); });
  const bool misbehaves = how != misbehaviours_.end();
  if (misbehaves && how->second == Misbehaviour::kHang) {
    hanging_.push_back(connection);
    return;
  }
  std::string body = objects_.contains(request.path) ? objects_.at(request.path) : "";
  if (misbehaves && how->second == Misbehaviour::kForbid) {
    send_all(connection, response("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>"));
  } else if (request.method == "PUT") {
    objects_[request.path] = request.body;
    send_all(connection, response("200 OK", ""));
  } else if (!objects_.contains(request.path)) {
    send_all(connection, response("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>"));
  } else if (misbehaves && how->second == Misbehaviour::kTruncate) {
    send_all(connection, response("200 OK", body.substr(0, body.size() / 2), body.size()));
  } else {
    if (misbehaves && how->second == Misbehaviour::kLengthen) body += "more";
    if (misbehaves && how->second == Misbehaviour::kChange) body.back() ^= 1;
    send_all(connection, response("200 OK", body));
  }
  ::close(connection);
}

}  // namespace lockstep::cache
