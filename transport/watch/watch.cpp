#include "transport/watch/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/rank_listener.h"
#include "transport/watch/wire.h"

namespace lockstep::transport::watch {
namespace {

using std::chrono::milliseconds;

constexpr auto kConnectEvery = milliseconds(10);
constexpr auto kIdle = std::chrono::seconds(1);
constexpr auto kToBeHeard = milliseconds(250);

TimePoint now() { return SteadyClock().now(); }

/// A connection to another rank.
struct Peer {
  Descriptor socket;
  int proven_rank = 0;
  int rank = -1;  // until its hello
  std::string host;
  std::string activity;  // as last reported
  std::string inbox;
  TimePoint last_sign{};
  bool is_leaving = false;
  bool said_bye = false;
  bool has_heard = false;  // the peer knows this rank's end
  bool is_closed = false;

  bool is_watched() const { return rank >= 0 && !said_bye && !is_closed; }
};

Error lost(const Peer& peer, const std::string& how, TimePoint at) {
  const std::string doing = peer.activity.empty() ? ""
                                                  : fmt::format("; {:.1f} s before it was in {}",
                                                                to_seconds(at - peer.last_sign), peer.activity);
  return {ErrorKind::kPeerLost,
          fmt::format("[transport/watch] rank {} on host {} was lost: {}{}; look at that rank's own log and at its "
                      "host, then start again",
                      peer.rank, peer.host, how, doing),
          peer.rank};
}

}  // namespace

Duration WatchOptions::beat() const {
  return silence == Duration::zero() ? silence : std::clamp<Duration>(silence / 16, milliseconds(10), kIdle);
}

class PeerWatch::Impl {
 public:
  Impl(WatchOptions options, Endpoint endpoint, Descriptor listener)
      : options_(std::move(options)),
        endpoint_(std::move(endpoint)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        listener_(make_listener(std::move(listener))),
        thread_([this] { run(); }) {}

  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    eventfd_write(wake_.get(), 1);
    thread_.join();
  }

  const Endpoint& endpoint() const { return endpoint_; }

  bool wait_joined(Duration patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience,
                             [this] { return std::ssize(met_) == (is_first() ? options_.size - 1 : 1); });
  }

  std::vector<int> missing() const {
    std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    for (int rank = 0; rank < (is_first() ? options_.size : 1); ++rank) {
      if (rank != options_.rank && std::ranges::find(met_, rank) == met_.end()) ranks.push_back(rank);
    }
    return ranks;
  }

  std::vector<Presence> presence() const {
    const TimePoint at = now();
    std::lock_guard lock(mutex_);
    std::vector<Presence> all(static_cast<size_t>(options_.size));
    all[static_cast<size_t>(options_.rank)] = {.host = options_.host, .silence = {}, .is_leaving = is_leaving_};
    for (const auto& peer : peers_) {
      if (peer->rank < 0 || peer->is_closed) continue;
      all[static_cast<size_t>(peer->rank)] = {
          .host = peer->host, .silence = at - peer->last_sign, .is_leaving = peer->is_leaving};
    }
    return all;
  }

  void announce_leave() {
    std::lock_guard lock(mutex_);
    is_leaving_ = true;
    for (const auto& peer : peers_) send(*peer, FrameKind::kLeaving, "");
  }

  void tell(Error error) {
    if (!error.origin_rank) error.origin_rank = options_.rank;
    if (*error.origin_rank == options_.rank) {
      error.message += fmt::format(" (said by rank {} on host {})", options_.rank, options_.host);
    }
    std::unique_lock lock(mutex_);
    if (end_ || left_) return;
    end_ = error;
    relay(error);
    changed_.wait_for(lock, kToBeHeard, [this] {
      return std::ranges::all_of(peers_, [](const auto& peer) { return peer->has_heard || !peer->is_watched(); });
    });
  }

  std::optional<Error> end(Duration patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [this] { return end_.has_value(); });
    return end_;
  }

  void leave(Duration patience) {
    std::unique_lock lock(mutex_);
    left_ = true;
    for (const auto& peer : peers_) send(*peer, FrameKind::kBye, "");
    if (!is_first()) return;
    changed_.wait_for(lock, patience,
                      [this] { return std::ranges::none_of(peers_, [](const auto& p) { return p->is_watched(); }); });
  }

 private:
  bool is_first() const { return options_.rank == 0; }

  std::unique_ptr<RankListener> make_listener(Descriptor listening) const {
    if (!listening.is_open()) return nullptr;
    return std::make_unique<RankListener>(std::move(listening),
                                          RankListenerOptions{.secret = endpoint_.secret,
                                                              .size = options_.size,
                                                              .purpose = ConnectionPurpose::kWatch,
                                                              .on_refused = options_.on_refused});
  }

  void run() {
    while (true) {
      std::vector<pollfd> files;
      bool is_connecting = false;
      {
        std::lock_guard lock(mutex_);
        if (stopping_) return;
        is_connecting = !is_first() && !has_connected_;
        files = watched_files();
      }
      const Duration nap = is_connecting                         ? Duration(kConnectEvery)
                           : options_.silence > Duration::zero() ? options_.beat()
                                                                 : Duration(kIdle);
      const TimePoint planned = now() + nap;
      poll(files.data(), files.size(), static_cast<int>(std::max<int64_t>(1, nap / milliseconds(1))));
      if (is_connecting) connect();
      const std::string activity = options_.activity ? options_.activity() : "";
      if (const auto news = look(activity, planned)) options_.on_end(*news);
    }
  }

  /// One round: reads, sends, measures silence. Returns the end if it was detected in this round.
  std::optional<Error> look(const std::string& activity, TimePoint planned) {
    std::lock_guard lock(mutex_);
    const TimePoint at = now();
    if (options_.silence > Duration::zero() && at - planned > options_.silence / 2) give_new_start(at);
    accept_all(at);
    for (const auto& peer : peers_) read(*peer, at);
    beat(activity, at);
    if (options_.silence > Duration::zero()) count_silence(at);
    std::erase_if(peers_, [](const auto& peer) { return peer->is_closed; });
    changed_.notify_all();
    return std::exchange(news_, std::nullopt);
  }

  std::vector<pollfd> watched_files() const {
    std::vector<pollfd> files{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    if (listener_ != nullptr) listener_->add_files(files);
    for (const auto& peer : peers_) files.push_back({.fd = peer->socket.get(), .events = POLLIN, .revents = 0});
    return files;
  }

  /// This process was stopped, or its machine suspended, so it may have missed messages.
  void give_new_start(TimePoint at) {
    for (const auto& peer : peers_) peer->last_sign = at;
  }

  void connect() {
    Descriptor socket = connect_to(endpoint_, options_.rank);
    if (!socket.is_open()) return;
    std::lock_guard lock(mutex_);
    has_connected_ = true;
    auto peer = std::make_unique<Peer>();
    peer->socket = std::move(socket);
    peer->last_sign = now();
    peers_.push_back(std::move(peer));
    send(*peers_.back(), FrameKind::kHello, own_hello());
    if (is_leaving_) send(*peers_.back(), FrameKind::kLeaving, "");
    if (end_) send(*peers_.back(), FrameKind::kFailed, to_text(*end_));
    if (left_) send(*peers_.back(), FrameKind::kBye, "");
  }

  std::string own_hello() const {
    return to_text(Hello{.rank = options_.rank, .size = options_.size, .host = options_.host});
  }

  void accept_all(TimePoint at) {
    if (listener_ == nullptr) return;
    for (ProvenConnection& proven : listener_->take(at)) {
      auto peer = std::make_unique<Peer>();
      peer->socket = std::move(proven.socket);
      peer->proven_rank = proven.rank;
      peer->last_sign = at;
      peers_.push_back(std::move(peer));
    }
  }

  void read(Peer& peer, TimePoint at) {
    const size_t before = peer.inbox.size();
    const bool is_open = receive(peer.socket, peer.inbox);
    if (peer.inbox.size() > before) peer.last_sign = at;
    while (const auto frame = take_frame(peer.inbox)) take(peer, *frame);
    if (is_open || peer.is_closed) return;
    if (peer.is_watched()) come_to_end(lost(peer, "its connection closed, expected it to stay until the job ends", at));
    if (!is_first() && peer.rank < 0) has_connected_ = false;  // no answer: try again
    peer.is_closed = true;
  }

  void take(Peer& peer, const Frame& frame) {
    if (frame.kind == FrameKind::kHello) return welcome(peer, frame.text);
    if (peer.rank < 0) return;  // not a rank
    if (frame.kind == FrameKind::kAlive) peer.activity = frame.text;
    if (frame.kind == FrameKind::kLeaving) peer.is_leaving = true;
    if (frame.kind == FrameKind::kBye) peer.said_bye = true;
    if (frame.kind == FrameKind::kHeard) peer.has_heard = true;
    if (frame.kind != FrameKind::kFailed) return;
    send(peer, FrameKind::kHeard, "");
    come_to_end(parse_error(frame.text));
  }

  void welcome(Peer& peer, const std::string& text) {
    const auto hello = parse_hello(text);
    const bool fits = hello && hello->size == options_.size && hello->rank == peer.proven_rank;
    const bool known = fits && std::ranges::find(met_, hello->rank) != met_.end();
    if (!fits || known) {
      peer.is_closed = true;
      return;
    }
    peer.rank = hello->rank;
    peer.host = hello->host;
    met_.push_back(peer.rank);
    if (!is_first()) return;
    send(peer, FrameKind::kHello, own_hello());
    if (end_) send(peer, FrameKind::kFailed, to_text(*end_));
    if (left_) send(peer, FrameKind::kBye, "");
  }

  void beat(const std::string& activity, TimePoint at) {
    if (options_.silence == Duration::zero() || at < next_beat_) return;
    next_beat_ = at + options_.beat();
    for (const auto& peer : peers_) send(*peer, FrameKind::kAlive, activity);
  }

  void count_silence(TimePoint at) {
    for (const auto& peer : peers_) {
      const Duration silent = at - peer->last_sign;
      if (!peer->is_watched() || silent <= options_.silence) continue;
      come_to_end(lost(*peer,
                       fmt::format("found no sign of life for {:.1f} s, expected one each {:.2g} s (it was stopped, or "
                                   "its host or network is down)",
                                   to_seconds(silent), to_seconds(options_.beat())),
                       at));
    }
  }

  /// Only the first end counts; rank 0 forwards it to all.
  void come_to_end(const Error& error) {
    if (end_ || (left_ && !is_first())) return;
    end_ = error;
    news_ = error;
    if (is_first()) relay(error);
  }

  void relay(const Error& error) {
    for (const auto& peer : peers_) {
      if (peer->rank >= 0) send(*peer, FrameKind::kFailed, to_text(error));
    }
  }

  /// Shuts a connection that accepts no more data; its next read detects this.
  void send(Peer& peer, FrameKind kind, std::string_view text) {
    if (!peer.is_closed && !send_frame(peer.socket, kind, text)) shutdown(peer.socket.get(), SHUT_WR);
  }

  const WatchOptions options_;
  const Endpoint endpoint_;
  const Descriptor wake_;
  const std::unique_ptr<RankListener> listener_;  // rank 0's
  mutable std::mutex mutex_;                      // of all below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<int> met_;  // ranks that said hello
  bool has_connected_ = false;
  bool is_leaving_ = false;
  bool left_ = false;
  bool stopping_ = false;
  TimePoint next_beat_{};
  std::optional<Error> end_;
  std::optional<Error> news_;  // the end, until `on_end` has been called for it
  std::thread thread_;
};

PeerWatch::PeerWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PeerWatch::~PeerWatch() = default;

Result<std::unique_ptr<PeerWatch>> PeerWatch::host(WatchOptions options, Endpoint endpoint) {
  LOCKSTEP_TRY(Descriptor listener, listen_at(endpoint, endpoint.port));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(endpoint), std::move(listener));
  return std::unique_ptr<PeerWatch>(new PeerWatch(std::move(impl)));
}

std::unique_ptr<PeerWatch> PeerWatch::join(WatchOptions options, Endpoint endpoint) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(endpoint), Descriptor());
  return std::unique_ptr<PeerWatch>(new PeerWatch(std::move(impl)));
}

const Endpoint& PeerWatch::endpoint() const { return impl_->endpoint(); }
std::vector<int> PeerWatch::missing() const { return impl_->missing(); }
bool PeerWatch::wait_joined(Duration patience) { return impl_->wait_joined(patience); }
std::vector<Presence> PeerWatch::presence() const { return impl_->presence(); }
void PeerWatch::announce_leave() { impl_->announce_leave(); }
void PeerWatch::tell(const Error& error) { impl_->tell(error); }
std::optional<Error> PeerWatch::end(Duration patience) { return impl_->end(patience); }
void PeerWatch::leave(Duration patience) { impl_->leave(patience); }

}  // namespace lockstep::transport::watch
