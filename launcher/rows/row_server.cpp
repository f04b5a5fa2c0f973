#include "launcher/rows/row_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <limits>
#include <utility>
#include <vector>

#include "transport/network.h"

namespace lockstep::launcher {
namespace {

constexpr auto kHello = std::chrono::seconds(10);  // until a connection has said which group it is
constexpr auto kLongestPoll = std::chrono::hours(1);
constexpr auto kWait = std::chrono::seconds(1);  // between two words to a group that waits for a row

}  // namespace

RowServer::RowServer(SharedRows& rows, RowSetup setup, size_t most, RowAddress address, Duration silence)
    : rows_(rows), setup_(setup), most_(most), silence_(silence), address_(std::move(address)) {}

Result<std::unique_ptr<RowServer>> RowServer::open(SharedRows& rows, RowSetup setup, size_t most, RowAddress address,
                                                   std::function<void(const std::string&)> on_refused,
                                                   Duration silence) {
  std::unique_ptr<RowServer> server(new RowServer(rows, setup, most, std::move(address), silence));
  LOCKSTEP_TRY(Descriptor listening, listen_for_groups(server->address_));
  if (server->address_.socket.empty()) {
    server->groups_.emplace(std::move(listening),
                            transport::RankListenerOptions{.secret = server->address_.secret,
                                                           .size = std::numeric_limits<int32_t>::max(),
                                                           .purpose = transport::ConnectionPurpose::kRows,
                                                           .on_refused = std::move(on_refused)});
  } else {
    server->listener_ = std::move(listening);
  }
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
  const SteadyClock clock;
  while (true) {
    std::vector<pollfd> files{{.fd = stop_.descriptor(), .events = POLLIN, .revents = 0}};
    int milliseconds = -1;
    if (groups_) {
      groups_->add_files(files);
      milliseconds = static_cast<int>(
          std::chrono::ceil<std::chrono::milliseconds>(groups_->patience(clock.now(), kLongestPoll)).count());
    } else {
      files.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
    }
    if (::poll(files.data(), files.size(), milliseconds) < 0) continue;
    if (files.front().revents != 0) return;
    if (!groups_) {
      accept_local();
      continue;
    }
    for (transport::ProvenConnection& one : groups_->take(clock.now())) {
      transport::end_when_unreachable(one.socket.get(), silence_);
      begin(std::move(one.socket));
    }
  }
}

void RowServer::accept_local() {
  Descriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (connection.is_open()) begin(std::move(connection));
}

void RowServer::begin(Descriptor connection) {
  const std::lock_guard lock(mutex_);
  Descriptor& own = connections_.emplace_back(std::move(connection));
  ++open_;
  threads_.emplace_back([this, &own] { serve(own); });
}

void RowServer::serve(Descriptor& connection) {
  const auto hello = receive_frame(connection, kHello);
  if (hello && hello->kind == RowMessage::kHello && hello->words.size() == 1) {
    const size_t group = hello->words[0];
    bool goes_on = send_frame(connection, RowMessage::kSetup, to_words(setup_));
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
