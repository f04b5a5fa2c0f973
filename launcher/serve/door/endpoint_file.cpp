#include "launcher/serve/door/endpoint_file.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "runtime/core/atomic_file.h"

namespace lockstep::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnix = "unix:";
constexpr int kLocalPort = 8000;  // at the other machine, for a Unix socket, which has no port

/// The parts of "http://[::1]:8000".
struct Address {
  std::string scheme, host;
};

Address parts_of(const std::string& url) {
  const size_t host = url.find("://") + 3;
  return {url.substr(0, host), url.substr(host, url.rfind(':') - host)};
}

bool is_every_network(const std::string& host) { return host == "0.0.0.0" || host == "[::]"; }

/// The base of the server's paths.
std::string reachable_url(const Endpoint& endpoint) {
  if (endpoint.url.starts_with(kUnix)) return endpoint.url;
  const Address address = parts_of(endpoint.url);
  if (!is_every_network(address.host)) return endpoint.url;
  return fmt::format("{}{}:{}", address.scheme, endpoint.host, endpoint.port);
}

std::string ssh_line(const Endpoint& endpoint) {
  const std::string account = endpoint.user.empty() ? endpoint.host : endpoint.user + "@" + endpoint.host;
  if (endpoint.url.starts_with(kUnix)) {
    return fmt::format("ssh -N -L {}:{} {}", kLocalPort, endpoint.url.substr(kUnix.size()), account);
  }
  const std::string host = parts_of(endpoint.url).host;
  return fmt::format("ssh -N -L {0}:{1}:{0} {2}", endpoint.port, is_every_network(host) ? "127.0.0.1" : host, account);
}

}  // namespace

std::string job_id(const std::function<std::string(const char* name)>& lookup) {
  // Slurm, PBS, LSF, Flux, Grid Engine.
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID"}) {
    if (std::string id = lookup(name); !id.empty()) return id;
  }
  return {};
}

std::string own_user() {
  const passwd* const entry = ::getpwuid(::geteuid());
  return entry == nullptr ? "" : entry->pw_name;
}

std::string to_json(const Endpoint& endpoint) {
  const std::string url = reachable_url(endpoint);
  nlohmann::ordered_json json{
      {"url", url}, {"host", endpoint.host}, {"port", endpoint.port}, {"model", endpoint.model}, {"pid", ::getpid()}};
  if (!endpoint.api_key_file.empty()) json["api_key_file"] = endpoint.api_key_file;
  if (!endpoint.job.empty()) json["job"] = endpoint.job;
  json["ssh"] = ssh_line(endpoint);
  if (endpoint.port != 0) json["base_url"] = url + "/v1";
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<std::unique_ptr<EndpointFile>> EndpointFile::write(const fs::path& path, const Endpoint& endpoint) {
  std::string text = to_json(endpoint);
  LOCKSTEP_TRY_VOID(write_text_file(path, text, FileAccess::kOwner));
  return std::unique_ptr<EndpointFile>(new EndpointFile(path, std::move(text)));
}

EndpointFile::~EndpointFile() {
  const auto found = read_text_file(path_, "--endpoint-file");
  std::error_code ignored;
  if (found.has_value() && found.value() == text_) fs::remove(path_, ignored);
}

}  // namespace lockstep::serve
