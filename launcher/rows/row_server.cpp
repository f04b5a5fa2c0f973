#include "launcher/rows/row_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lockstep::launcher {
namespace {

constexpr auto kHello = std::chrono::seconds(10);  // until a connection has said who it is
constexpr auto kWait = std::chrono::seconds(1);    // between two words to a group that waits for a row

/// In a time that does not tell where they differ.
bool are_equal(std::string_view found, std::string_view secret) {
  unsigned differing = found.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(found.size(), secret.size()); ++i) {
    differing |= static_cast<unsigned char>(found[i]) ^ static_cast<unsigned char>(secret[i]);
  }
  return differing == 0;
}

}  // namespace

RowServer::RowServer(SharedRows& rows, RowSetup setup, size_t most, RowAddress address)
    : rows_(rows), setup_(setup), most_(most), address_(std::move(address)) {}

Result<std::unique_ptr<RowServer>> RowServer::open(SharedRows& rows, RowSetup setup, size_t most, RowAddress address) {
  std::unique_ptr<RowServer> server(new RowServer(rows, setup, most, std::move(address)));
  LOCKSTEP_TRY(server->listener_, listen_for_groups(server->address_));
  server->accepting_ = std::thread([own = server.get()] { own->accept_all(); });
  return server;
}

RowServer::~RowServer() {
  stop_.raise();
  if (accepting_.joinable()) accepting_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const Descriptor& connection : connections_) ::shutdown(connection.get(), SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

void RowServer::accept_all() {
  while (true) {
    std::array<pollfd, 2> waits{pollfd{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = stop_.descriptor(), .events = POLLIN, .revents = 0}};
    if (::poll(waits.data(), waits.size(), -1) <= 0) continue;
    if (waits[1].revents != 0) return;
    Descriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.is_open()) continue;
    const std::lock_guard lock(mutex_);
    Descriptor& own = connections_.emplace_back(std::move(connection));
    ++open_;
    threads_.emplace_back([this, &own] { serve(own); });
  }
}

void RowServer::serve(Descriptor& connection) {
  const auto hello = receive_frame(connection, kHello);
  const bool is_known = hello && hello->kind == RowMessage::kHello && !hello->words.empty() &&
                        are_equal(text_of(std::span(hello->words).subspan(1)), address_.secret);
  if (is_known) {
    const size_t group = hello->words[0];
    const std::array<uint64_t, 3> setup{static_cast<uint64_t>(setup_.capacity), static_cast<uint64_t>(setup_.unix_time),
                                        setup_.rows};
    bool goes_on = send_frame(connection, RowMessage::kSetup, setup);
    while (goes_on) {
      const auto frame = receive_frame(connection);
      goes_on = frame && answer(*frame, group, connection);
    }
    rows_.lose(group);
  }
  ::shutdown(connection.get(), SHUT_RDWR);
  const std::lock_guard lock(mutex_);
  --open_;
  gone_.notify_all();
}

bool RowServer::wait_gone(Duration limit) {
  std::unique_lock lock(mutex_);
  return gone_.wait_for(lock, limit, [this] { return open_ == 0; });
}

bool RowServer::answer(const RowFrame& frame, size_t group, const Descriptor& connection) {
  switch (frame.kind) {
    case RowMessage::kNext: return answer_next(group, connection);
    case RowMessage::kHold:
      if (frame.words.size() != 1) return false;
      rows_.hold(frame.words[0]);
      return true;
    case RowMessage::kResult: {
      auto row = journal::decode_row(frame.bytes(), /*index=*/0);
      if (!row.has_value()) return false;
      rows_.put(group, std::move(row.value()));
      return true;
    }
    default: return false;
  }
}

bool RowServer::answer_next(size_t group, const Descriptor& connection) {
  if (const auto row = rows_.next(group, most_, kWait)) {
    const uint64_t number = *row;
    return send_frame(connection, RowMessage::kRow, {&number, 1});
  }
  return send_frame(connection, rows_.is_open() ? RowMessage::kWait : RowMessage::kNone);
}

}  // namespace lockstep::launcher
