// A file that tells other programs and people where the server is: on a cluster, ports and hosts are not known ahead.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/core/result.h"

namespace lockstep::serve {

/// Where a server can be reached.
struct Endpoint {
  std::string url;           // "http://127.0.0.1:8000", "unix:/run/lockstep.sock"
  std::string host;          // this machine's name
  std::string user;          // of this process; empty: unknown
  int port = 0;              // 0: a Unix socket
  std::string model;         // the id for clients
  std::string api_key_file;  // absolute; empty: no key is needed
  std::string job;           // of the batch system; empty: none
};

/// The id of this job, as the batch system's own commands take it; empty outside of a job. `lookup` gives the value of
/// an environment variable, or an empty text.
std::string job_id(const std::function<std::string(const char* name)>& lookup);

/// The account of this process; empty if it has no name.
std::string own_user();

/// The file's JSON text. `ssh` is the line that brings the port to another machine. The host's name stands for the
/// address of a server that listens on every network.
std::string to_json(const Endpoint& endpoint);

/// Exists while this object lives, unless another server replaces it.
class EndpointFile {
 public:
  /// Mode 0600 from the start; appears whole. Fails with `kInvalidArgument` when it cannot be written.
  static Result<std::unique_ptr<EndpointFile>> write(const std::filesystem::path& path, const Endpoint& endpoint);
  ~EndpointFile();
  EndpointFile(const EndpointFile&) = delete;
  EndpointFile& operator=(const EndpointFile&) = delete;

 private:
  EndpointFile(std::filesystem::path path, std::string text) : path_(std::move(path)), text_(std::move(text)) {}

  const std::filesystem::path path_;
  const std::string text_;
};

}  // namespace lockstep::serve
