// Sockets that listen for clients of an engine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::rpc {

/// A descriptor that listens.
struct Listener {
  int descriptor = -1;
  uint16_t port = 0;  // of TCP
};

/// At a Unix socket that only this user may open. A socket that an ended process has left is replaced. Fails with
/// `kUnavailable`.
Result<int> listen_at(const std::filesystem::path& path);

/// At a numeric address of this host and a free port. Fails with `kUnavailable`.
Result<Listener> listen_on_free_port(const std::string& host);

Error cannot_listen(const std::string& where, std::string_view found);

}  // namespace lockstep::rpc
