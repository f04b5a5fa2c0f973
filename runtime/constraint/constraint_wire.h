// Messages between this process and the processes that compile and apply constraints. Private to this folder.
//
// Small messages are datagrams of a pair of sockets and carry descriptors; long texts are files in memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/constraint/grammar.h"
#include "runtime/constraint/isolated_compiler.h"
#include "runtime/core/clock.h"
#include "runtime/core/descriptor.h"
#include "runtime/core/result.h"

namespace lockstep::constraint {

struct SocketPair {
  Descriptor ours, theirs;
};

/// Of datagrams, in order. Both ends are closed in programs that this one starts.
Result<SocketPair> make_socket_pair();

/// A file in memory with these bytes. Fails with `kUnavailable`.
Result<Descriptor> memory_file(std::string_view bytes);

/// The most that one message carries.
inline constexpr size_t kMostDescriptors = 2;

struct Datagram {
  std::string bytes;
  std::vector<Descriptor> descriptors;
};

/// Returns whether it was sent; not if the other end is closed.
bool send_datagram(int socket, std::string_view bytes, std::span<const int> descriptors = {});
/// The next one; none if the other end is closed, or none comes within `patience` (none: without a limit). @blocking
std::optional<Datagram> receive_datagram(int socket, size_t most_bytes, std::optional<Duration> patience);

/// What the host of constraints is started with.
struct HostSetup {
  IsolationLimits limits;
  TokenTable table;
};
std::string to_bytes(const HostSetup& setup);
std::optional<HostSetup> parse_setup(std::string_view bytes);

std::string to_bytes(const CheckedFormat& format);
std::optional<CheckedFormat> parse_format(std::string_view bytes);

std::string to_bytes(std::span<const int32_t> numbers);
std::vector<int32_t> parse_numbers(std::string_view bytes);

/// The first byte of an answer.
inline constexpr char kDone = 'd', kFailed = 'f';
std::string failure_bytes(const Error& error);
/// The error of an answer that begins with `kFailed`.
Error parse_failure(std::string_view bytes);

}  // namespace lockstep::constraint
