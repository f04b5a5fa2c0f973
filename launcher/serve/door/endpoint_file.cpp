#include "launcher/serve/door/endpoint_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/core/atomic_file.h"

namespace lockstep::serve {

namespace fs = std::filesystem;

std::string to_json(const Endpoint& endpoint) {
  nlohmann::ordered_json json{{"url", endpoint.url},
                              {"host", endpoint.host},
                              {"port", endpoint.port},
                              {"model", endpoint.model},
                              {"pid", ::getpid()}};
  if (!endpoint.api_key_file.empty()) json["api_key_file"] = endpoint.api_key_file;
  if (!endpoint.job.empty()) json["job"] = endpoint.job;
  if (endpoint.port != 0) {
    json["ssh"] = fmt::format("ssh -N -L {0}:127.0.0.1:{0} {1}", endpoint.port, endpoint.host);
    json["base_url"] = endpoint.url + "/v1";
  }
  return json.dump(2) + "\n";
}

Result<std::unique_ptr<EndpointFile>> EndpointFile::write(const fs::path& path, const Endpoint& endpoint) {
  const fs::path pending = path.string() + ".pending";
  LOCKSTEP_TRY_VOID(write_text_file(pending, to_json(endpoint)));
  std::error_code failed;
  fs::permissions(pending, fs::perms::owner_read | fs::perms::owner_write, failed);
  if (!failed) fs::rename(pending, path, failed);
  if (!failed) return std::unique_ptr<EndpointFile>(new EndpointFile(path));
  fs::remove(pending, failed);
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[serve] --endpoint-file: found a place that cannot be written, {}, expected a file that may "
                  "be replaced; name another one",
                  path.string())};
}

EndpointFile::~EndpointFile() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

}  // namespace lockstep::serve
