// A file that tells other programs and people where the server is: on a cluster, ports and hosts are not known ahead.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/core/result.h"

namespace lockstep::serve {

/// Where a server can be reached.
struct Endpoint {
  std::string url;           // "http://127.0.0.1:8000", "unix:/run/lockstep.sock"
  std::string host;          // this machine's name
  int port = 0;              // 0: a Unix socket
  std::string model;         // the id for clients
  std::string api_key_file;  // empty: no key is needed
  std::string job;           // of the batch system; empty: none
};

/// The file's JSON text. `ssh` is the line that brings the port to another machine.
std::string to_json(const Endpoint& endpoint);

/// Exists while this object lives.
class EndpointFile {
 public:
  /// Mode 0600; appears whole. Fails with `kInvalidArgument` when it cannot be written.
  static Result<std::unique_ptr<EndpointFile>> write(const std::filesystem::path& path, const Endpoint& endpoint);
  ~EndpointFile();
  EndpointFile(const EndpointFile&) = delete;
  EndpointFile& operator=(const EndpointFile&) = delete;

 private:
  explicit EndpointFile(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace lockstep::serve
