// Sockets and frames of the watch, between rank 0 and each other rank.
//
//   frame   ┌──────────────┬────────┬─────────┐
//           │ u32 length   │ u8 kind│ text    │     length counts kind and text; numbers are little-endian
//           └──────────────┴────────┴─────────┘
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/core/descriptor.h"
#include "runtime/core/result.h"
#include "transport/watch/watch.h"

namespace lockstep::transport::watch {

enum class FrameKind : char { kHello = 'h', kAlive = 'a', kFailed = 'f', kHeard = 'k', kLeaving = 'l', kBye = 'b' };

struct Frame {
  FrameKind kind = FrameKind::kAlive;
  std::string text;
};

/// The first message of a rank, after the handshake.
struct Hello {
  int rank = 0;
  int size = 1;
  std::string host;
};
std::string to_text(const Hello& hello);
std::optional<Hello> parse_hello(const std::string& text);

std::string to_text(const Error& error);
/// An error of another rank; `kInternal` with the text itself when it cannot be read.
Error parse_error(const std::string& text);

/// A socket that listens at `endpoint` (port 0: a free one) without blocking; `port` becomes the port of a TCP socket.
/// Fails with `kUnavailable`.
Result<Descriptor> listen_at(const Endpoint& endpoint, uint16_t& port);

/// A connection to `endpoint` on which `rank` has proved the endpoint's secret; tried for at most a second, empty
/// without an answer. @blocking
Descriptor connect_to(const Endpoint& endpoint, int rank);

/// Sends without blocking; false when the connection is broken.
bool send_frame(const Descriptor& socket, FrameKind kind, std::string_view text);

/// Appends received bytes to `inbox`; false when the peer has closed.
bool receive(const Descriptor& socket, std::string& inbox);

/// Takes the next whole frame from `inbox`. An invalid length empties it.
std::optional<Frame> take_frame(std::string& inbox);

}  // namespace lockstep::transport::watch
