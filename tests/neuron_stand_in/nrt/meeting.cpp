#include "tests/neuron_stand_in/nrt/meeting.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/neuron_stand_in/nrt/report.h"

namespace lockstep::stand_in {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMagic = 0x4c4b5331;
constexpr int kRetryMilliseconds = 5;  // between two tries to reach rank 0

/// A rank's first words to rank 0.
struct Hello {
  uint32_t magic = kMagic;
  uint32_t rank = 0;
  uint32_t ranks = 0;
};

/// The header of a rank's part of a collective.
struct PartHeader {
  uint64_t bytes = 0;
  uint64_t members = 0;  // their ranks follow
};

/// Closed when it goes.
class Socket {
 public:
  explicit Socket(int file) : file_(file) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (file_ >= 0) ::close(file_);
  }
  int file() const { return file_; }
  int take() { return std::exchange(file_, -1); }

 private:
  int file_;
};

struct Addresses {
  addrinfo* first = nullptr;
  ~Addresses() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
};

bool resolve(const Meeting::Options& options, Addresses& addresses) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  const std::string port = std::to_string(options.port);
  return ::getaddrinfo(options.host.c_str(), port.c_str(), &hints, &addresses.first) == 0;
}

/// Waits until `file` can be read from or written to; false after the deadline.
bool wait_for(int file, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd polled{file, events, 0};
    const int found = ::poll(&polled, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

void prepare(int file) {
  const int on = 1;
  ::setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) | O_NONBLOCK);
}

/// Moves all bytes with `step` (recv or send): 1 done, 0 late, -1 the other side has closed.
template <typename Step>
int move_all(int file, size_t size, short events, Clock::time_point deadline, Step step) {
  for (size_t done = 0; done < size;) {
    const ssize_t moved = step(done);
    if (moved > 0) {
      done += static_cast<size_t>(moved);
    } else if (moved == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return -1;
    } else if (!wait_for(file, events, deadline)) {
      return 0;
    }
  }
  return 1;
}

int receive_all(int file, void* bytes, size_t size, Clock::time_point deadline) {
  return move_all(file, size, POLLIN, deadline,
                  [&](size_t done) { return ::recv(file, static_cast<char*>(bytes) + done, size - done, 0); });
}

int send_all(int file, const void* bytes, size_t size, Clock::time_point deadline) {
  return move_all(file, size, POLLOUT, deadline, [&](size_t done) {
    return ::send(file, static_cast<const char*>(bytes) + done, size - done, MSG_NOSIGNAL);
  });
}

/// A socket that is connected to one of `addresses`, or -1.
int try_to_connect(const Addresses& addresses) {
  for (const addrinfo* at = addresses.first; at != nullptr; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (socket.file() >= 0 && ::connect(socket.file(), at->ai_addr, at->ai_addrlen) == 0) return socket.take();
  }
  return -1;
}

int listening_socket(const Addresses& addresses, int backlog) {
  for (const addrinfo* at = addresses.first; at != nullptr; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    const int on = 1;
    ::setsockopt(socket.file(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.file(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(socket.file(), backlog) == 0) {
      return socket.take();
    }
  }
  return -1;
}

}  // namespace

nrt::NRT_STATUS Meeting::open(const Options& options, std::unique_ptr<Meeting>& meeting) {
  std::unique_ptr<Meeting> opened(new Meeting(options));
  opened->sockets_.assign(options.ranks, -1);
  const Deadline deadline = Clock::now() + options.limit;
  const nrt::NRT_STATUS status = options.rank == 0 ? opened->listen(deadline) : opened->connect(deadline);
  if (status == nrt::NRT_SUCCESS) meeting = std::move(opened);
  return status;
}

Meeting::~Meeting() { leave(); }

void Meeting::leave() {
  for (int& socket : sockets_) {
    if (socket >= 0) ::close(socket);
    socket = -1;
  }
}

nrt::NRT_STATUS Meeting::listen(Deadline deadline) {
  Addresses addresses;
  if (!resolve(options_, addresses)) return refuse(nrt::NRT_FAILURE, "NEURON_RT_ROOT_COMM_ID: no such host");
  const Socket listener(listening_socket(addresses, static_cast<int>(options_.ranks)));
  if (listener.file() < 0) {
    return refuse(nrt::NRT_FAILURE,
                  fmt::format("cannot listen at {}:{}: {}", options_.host, options_.port, std::strerror(errno)));
  }
  for (uint32_t missing = options_.ranks - 1; missing > 0;) {
    if (!wait_for(listener.file(), POLLIN, deadline)) {
      return refuse(nrt::NRT_TIMEOUT, fmt::format("{} of {} ranks did not come", missing, options_.ranks));
    }
    Socket socket(::accept4(listener.file(), nullptr, nullptr, SOCK_CLOEXEC));
    prepare(socket.file());
    Hello hello;
    const bool is_ours = receive_all(socket.file(), &hello, sizeof hello, deadline) == 1 && hello.magic == kMagic &&
                         hello.rank > 0 && hello.rank < options_.ranks && sockets_[hello.rank] < 0;
    if (!is_ours) continue;
    if (hello.ranks != options_.ranks) {
      return refuse(nrt::NRT_FAILURE, fmt::format("rank {} is of a group of {}, this one of {}", hello.rank,
                                                  hello.ranks, options_.ranks));
    }
    sockets_[hello.rank] = socket.take();
    --missing;
  }
  return nrt::NRT_SUCCESS;
}

nrt::NRT_STATUS Meeting::connect(Deadline deadline) {
  Addresses addresses;
  if (!resolve(options_, addresses)) return refuse(nrt::NRT_FAILURE, "NEURON_RT_ROOT_COMM_ID: no such host");
  while ((sockets_[0] = try_to_connect(addresses)) < 0) {  // rank 0 may start later
    if (Clock::now() > deadline) return refuse(nrt::NRT_TIMEOUT, "rank 0 did not come");
    ::poll(nullptr, 0, kRetryMilliseconds);
  }
  prepare(sockets_[0]);
  const Hello hello{.rank = options_.rank, .ranks = options_.ranks};
  if (send_all(sockets_[0], &hello, sizeof hello, deadline) != 1) {
    return refuse(nrt::NRT_FAILURE, "rank 0 closed the connection");
  }
  return nrt::NRT_SUCCESS;
}

Fault Meeting::lost(uint32_t rank, bool is_late) {
  has_timed_out_ = is_late;
  return {Fault::Kind::kPeerMissing, is_late ? fmt::format("rank {} did not come within {} s", rank, limit_.count())
                                             : fmt::format("rank {} left", rank)};
}

Outcome Meeting::receive(uint32_t rank, void* bytes, size_t size, Deadline deadline) {
  const int moved = receive_all(sockets_[rank], bytes, size, deadline);
  return moved == 1 ? Outcome() : lost(rank, moved == 0);
}

Outcome Meeting::send(uint32_t rank, const void* bytes, size_t size, Deadline deadline) {
  const int moved = send_all(sockets_[rank], bytes, size, deadline);
  return moved == 1 ? Outcome() : lost(rank, moved == 0);
}

Outcome Meeting::all_gather(std::span<const int64_t> group, std::span<const std::byte> own, std::span<std::byte> all) {
  if (options_.ranks == 1) {
    std::copy(own.begin(), own.end(), all.begin());
    return {};
  }
  if (options_.rank == 0) {
    Outcome fault = gather_at_root(group, own, all);
    if (fault) leave();  // the others wait for nothing
    return fault;
  }
  const Deadline deadline = Clock::now() + limit_;
  const PartHeader header{.bytes = own.size(), .members = group.size()};
  if (Outcome fault = send(0, &header, sizeof header, deadline)) return fault;
  if (Outcome fault = send(0, group.data(), group.size_bytes(), deadline)) return fault;
  if (Outcome fault = send(0, own.data(), own.size(), deadline)) return fault;
  return receive(0, all.data(), all.size(), deadline);
}

Outcome Meeting::gather_at_root(std::span<const int64_t> group, std::span<const std::byte> own,
                                std::span<std::byte> all) {
  struct Part {
    std::vector<int64_t> group;
    std::vector<std::byte> bytes;
  };
  const Deadline deadline = Clock::now() + limit_;
  std::vector<Part> parts(options_.ranks);
  parts[0] = {{group.begin(), group.end()}, {own.begin(), own.end()}};
  for (uint32_t rank = 1; rank < options_.ranks; ++rank) {
    PartHeader header;
    if (Outcome fault = receive(rank, &header, sizeof header, deadline)) return fault;
    if (header.bytes != own.size() || header.members > options_.ranks) {
      return Fault{Fault::Kind::kPeerMissing,
                   fmt::format("rank {} came with {} bytes to a collective of {}", rank, header.bytes, own.size())};
    }
    Part& part = parts[rank];
    part.group.resize(header.members);
    part.bytes.resize(header.bytes);
    if (Outcome fault = receive(rank, part.group.data(), 8 * part.group.size(), deadline)) return fault;
    if (Outcome fault = receive(rank, part.bytes.data(), part.bytes.size(), deadline)) return fault;
  }
  for (uint32_t rank = options_.ranks; rank-- > 0;) {
    std::vector<std::byte> answer;
    for (const int64_t member : parts[rank].group) {
      if (member < 0 || member >= static_cast<int64_t>(parts.size())) continue;
      const std::vector<std::byte>& bytes = parts[static_cast<size_t>(member)].bytes;
      answer.insert(answer.end(), bytes.begin(), bytes.end());
    }
    if (rank == 0) {
      std::copy_n(answer.begin(), std::min(answer.size(), all.size()), all.begin());
    } else if (Outcome fault = send(rank, answer.data(), answer.size(), deadline)) {
      return fault;
    }
  }
  return {};
}

}  // namespace lockstep::stand_in
