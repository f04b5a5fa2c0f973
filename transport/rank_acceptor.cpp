#include "transport/rank_acceptor.h"

#include <utility>

#include "transport/network.h"

namespace lockstep::transport {
namespace {

constexpr auto kLongestPoll = std::chrono::hours(1);

}  // namespace

Result<std::unique_ptr<RankAcceptor>> RankAcceptor::open(const std::string& address, RankListenerOptions options,
                                                         std::function<void(ProvenConnection)> on_connection) {
  LOCKSTEP_TRY(Listening listening, listen_on_free_port(address));
  return std::unique_ptr<RankAcceptor>(
      new RankAcceptor(std::move(listening.socket), listening.port, std::move(options), std::move(on_connection)));
}

RankAcceptor::RankAcceptor(Descriptor listening, uint16_t port, RankListenerOptions options,
                           std::function<void(ProvenConnection)> on_connection)
    : port_(port),
      on_connection_(std::move(on_connection)),
      listener_(std::move(listening), std::move(options)),
      thread_([this] { run(); }) {}

RankAcceptor::~RankAcceptor() {
  stop_.raise();
  thread_.join();
}

void RankAcceptor::run() {
  const SteadyClock clock;
  while (true) {
    std::vector<pollfd> files{{.fd = stop_.descriptor(), .events = POLLIN, .revents = 0}};
    listener_.add_files(files);
    const Duration patience = listener_.patience(clock.now(), kLongestPoll);
    poll(files.data(), files.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(patience).count()));
    if (files.front().revents != 0) return;
    for (ProvenConnection& one : listener_.take(clock.now())) on_connection_(std::move(one));
  }
}

}  // namespace lockstep::transport
