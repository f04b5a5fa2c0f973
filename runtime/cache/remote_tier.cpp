#include <fmt/format.h>

#include "runtime/cache/http.h"
#include "runtime/cache/key.h"
#include "runtime/cache/remote_address.h"
#include "runtime/cache/tier.h"

namespace lockstep::cache {
namespace {

/// The text between <Code> and </Code> in an object store's response; empty when there is none.
std::string error_code(const std::string& said) {
  const size_t begin = said.find("<Code>");
  const size_t end = said.find("</Code>");
  return begin == std::string::npos || end == std::string::npos || end < begin + 6
             ? ""
             : said.substr(begin + 6, end - begin - 6);
}

std::string_view advice(int status) {
  if (status == 401 || status == 403) return "; check the account and its rights";
  if (status >= 300 && status < 400) return "; check the address, and the region of a bucket";
  return "";
}

/// The error of a status other than success and "not found".
Error refusal(std::string_view what, const HttpAnswer& answer) {
  const std::string code = error_code(answer.said);
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[runtime/cache] {}: found HTTP status {}{}, expected 200{}", what, answer.status,
                      code.empty() ? "" : fmt::format(" ({})", code), advice(answer.status))};
}

bool is_absent(const HttpAnswer& answer) { return answer.status == 404 && error_code(answer.said) != "NoSuchBucket"; }

class RemoteTier final : public Tier {
 public:
  RemoteTier(RemoteAddress address, S3Account account) : address_(std::move(address)), account_(std::move(account)) {}

  Result<void> connect(const Options& options) {
    LOCKSTEP_TRY(http_, make_http(address_.is_signed ? &account_ : nullptr, options.remote, options.abort));
    return ok();
  }

  const std::string& name() const override { return address_.name; }

  Result<std::optional<Manifest>> fetch(const device::ArtifactKey& key, const Draft& draft) override {
    if (!unknown_fields(key).empty()) return std::optional<Manifest>();  // objects have exact names
    const std::string address = address_of(key);
    const std::filesystem::path file = draft.work() / "manifest";
    LOCKSTEP_TRY(const HttpAnswer said, http_->get(url(address, "manifest"), file, kMostManifestBytes));
    if (is_absent(said)) return std::optional<Manifest>();
    if (said.status != 200) return refusal("cannot be read", said);
    LOCKSTEP_TRY(const std::vector<std::byte> bytes, read_small_file(file, kMostManifestBytes));
    LOCKSTEP_TRY(Manifest manifest, decode_manifest(bytes));
    if (address_of(manifest.key) != address || manifest.artifact.sha256.empty()) {
      return Error{ErrorKind::kFailedPrecondition, "[runtime/cache] a damaged manifest: it is of another key"};
    }
    LOCKSTEP_TRY(const HttpAnswer artifact,
                 http_->get(url(address, "artifact"), draft.artifact(), manifest.artifact.size));
    if (is_absent(artifact)) return std::optional<Manifest>();
    if (artifact.status != 200) return refusal("cannot be read", artifact);
    return std::optional(std::move(manifest));
  }

  Result<void> offer(const Entry& entry) override {
    // The manifest is uploaded last, so a visible manifest implies a complete artifact.
    LOCKSTEP_TRY_VOID(send(url(entry.address, "artifact"), entry.artifact));
    return send(url(entry.address, "manifest"), entry.artifact.parent_path() / "manifest");
  }

  std::vector<Manifest> manifests() const override { return {}; }

 private:
  std::string url(const std::string& address, std::string_view kind) const {
    return fmt::format("{}/{}.{}", address_.base, address, kind);
  }

  Result<void> send(const std::string& to, const std::filesystem::path& file) {
    LOCKSTEP_TRY(const HttpAnswer said, http_->put(to, file));
    if (said.status < 200 || said.status > 204) return refusal("cannot be filled", said);
    return ok();
  }

  const RemoteAddress address_;
  const S3Account account_;
  std::unique_ptr<Http> http_;
};

}  // namespace

Result<std::unique_ptr<Tier>> make_remote_tier(const std::string& url, const Options& options) {
  LOCKSTEP_TRY(RemoteAddress address, remote_address(url, options.account));
  auto tier = std::make_unique<RemoteTier>(std::move(address), options.account);
  LOCKSTEP_TRY_VOID(tier->connect(options));
  return std::unique_ptr<Tier>(std::move(tier));
}

}  // namespace lockstep::cache
