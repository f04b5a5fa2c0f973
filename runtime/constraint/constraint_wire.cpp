#include "runtime/constraint/constraint_wire.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "runtime/core/error_kinds.h"
#include "runtime/core/memory_file.h"
#include "runtime/core/readiness.h"

namespace lockstep::constraint {
namespace {

Error unavailable(std::string_view what) {
  return {ErrorKind::kUnavailable,
          fmt::format("[runtime/constraint] cannot compile the constraint: found '{}', expected {}; try again later",
                      std::strerror(errno), what)};
}

class Packer {
 public:
  void put(int64_t number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof number); }
  void put(std::string_view text) {
    put(static_cast<int64_t>(text.size()));
    bytes_.append(text);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what a Packer wrote; `is_good` turns false at bytes that it did not write.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  int64_t number() {
    int64_t number = 0;
    if (bytes_.size() < sizeof number) return fail();
    std::memcpy(&number, bytes_.data(), sizeof number);
    bytes_.remove_prefix(sizeof number);
    return number;
  }
  /// A number of items that have at least `least` bytes each.
  int64_t count(size_t least) {
    const int64_t items = number();
    return items < 0 || static_cast<uint64_t>(items) > bytes_.size() / least ? fail() : items;
  }
  std::string text() {
    const auto size = static_cast<size_t>(count(1));
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  bool is_good() const { return is_good_ && bytes_.empty(); }

 private:
  int64_t fail() {
    is_good_ = false;
    bytes_ = {};
    return 0;
  }

  std::string_view bytes_;
  bool is_good_ = true;
};

constexpr size_t kLeastText = sizeof(int64_t);

}  // namespace

Result<SocketPair> make_socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return unavailable("a pair of sockets");
  return SocketPair{Descriptor(ends[0]), Descriptor(ends[1])};
}

Result<Descriptor> memory_file(std::string_view bytes) {
  auto file = make_memory_file("lockstep-constraint", bytes, Inherited::kNo);
  if (!file) return unavailable("memory for its text");
  return *std::move(file);
}

bool send_datagram(int socket, std::string_view bytes, std::span<const int> descriptors) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

std::optional<Datagram> receive_datagram(int socket, size_t most_bytes, std::optional<Duration> patience) {
  if (patience && !becomes_ready(socket, POLLIN, *patience)) return std::nullopt;
  Datagram datagram;
  datagram.bytes.resize(most_bytes);
  iovec part{datagram.bytes.data(), datagram.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = -1;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size <= 0 || (message.msg_flags & MSG_TRUNC) != 0) return std::nullopt;
  datagram.bytes.resize(static_cast<size_t>(size));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    std::vector<int> numbers((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(numbers.data(), CMSG_DATA(header), numbers.size() * sizeof(int));
    for (const int number : numbers) datagram.descriptors.emplace_back(number);
  }
  return datagram;
}

std::string to_bytes(const HostSetup& setup) {
  Packer packer;
  for (const Duration time : {setup.limits.compile, setup.limits.most_mask, setup.limits.mask})
    packer.put(time.count());
  packer.put(setup.limits.memory.value);
  packer.put(static_cast<int64_t>(setup.table.form));
  packer.put(std::ssize(setup.table.tokens));
  for (const std::string& token : setup.table.tokens) packer.put(token);
  packer.put(static_cast<int64_t>(setup.table.special.size()));
  for (const auto& [id, token] : setup.table.special) {
    packer.put(int64_t{id});
    packer.put(token);
  }
  return packer.take();
}

std::optional<HostSetup> parse_setup(std::string_view bytes) {
  Unpacker unpacker(bytes);
  HostSetup setup;
  for (Duration* time : {&setup.limits.compile, &setup.limits.most_mask, &setup.limits.mask}) {
    *time = Duration(unpacker.number());
  }
  setup.limits.memory = Bytes(unpacker.number());
  setup.table.form = static_cast<TokenTable::Form>(unpacker.number());
  setup.table.tokens.resize(static_cast<size_t>(unpacker.count(kLeastText)));
  for (std::string& token : setup.table.tokens) token = unpacker.text();
  for (int64_t left = unpacker.count(2 * kLeastText); left > 0; --left) {
    const auto id = static_cast<int32_t>(unpacker.number());
    setup.table.special[id] = unpacker.text();
  }
  return unpacker.is_good() ? std::optional(std::move(setup)) : std::nullopt;
}

std::string to_bytes(const CheckedFormat& format) {
  Packer packer;
  packer.put(format.structural_tag);
  packer.put(std::ssize(format.literals));
  for (const std::string& literal : format.literals) packer.put(literal);
  return packer.take();
}

std::optional<CheckedFormat> parse_format(std::string_view bytes) {
  Unpacker unpacker(bytes);
  CheckedFormat format{unpacker.text(), {}};
  format.literals.resize(static_cast<size_t>(unpacker.count(kLeastText)));
  for (std::string& literal : format.literals) literal = unpacker.text();
  return unpacker.is_good() ? std::optional(std::move(format)) : std::nullopt;
}

std::string to_bytes(std::span<const int32_t> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

std::vector<int32_t> parse_numbers(std::string_view bytes) {
  std::vector<int32_t> numbers(bytes.size() / sizeof(int32_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(int32_t));
  return numbers;
}

std::string failure_bytes(const Error& error) {
  constexpr size_t kMostMessage = 2000;
  return fmt::format("{}{}{}", kFailed, static_cast<char>(error.kind), error.message.substr(0, kMostMessage));
}

Error parse_failure(std::string_view bytes) {
  const auto kind = bytes.size() < 2 ? std::nullopt : error_kind_numbered(bytes[1]);
  if (!kind) return {ErrorKind::kInternal, "[runtime/constraint] found an empty answer, expected an error"};
  return {*kind, std::string(bytes.substr(2))};
}

}  // namespace lockstep::constraint
