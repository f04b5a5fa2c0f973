// Exported artifacts: a read-only folder.

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "runtime/cache/cache.h"
#include "runtime/cache/folder.h"
#include "runtime/cache/key.h"
#include "runtime/cache/misses.h"

namespace lockstep::cache {
namespace {

Error no_artifacts(const std::filesystem::path& folder) {
  return {ErrorKind::kNotFound,
          fmt::format("[runtime/cache] cannot use {}: found no artifacts, expected a folder that lockstep export or a "
                      "compile cache has filled",
                      folder.string())};
}

class ArtifactFolder final : public device::ArtifactCache {
 public:
  ArtifactFolder(std::filesystem::path folder, Say say) : folder_(std::move(folder)), say_(std::move(say)) {}

  Result<device::Artifact> get(const device::ArtifactKey& key, const device::MakeArtifact&) override {
    LOCKSTEP_TRY(LookUp found, folder_.find(key));
    const std::string place = folder_.root().string();
    if (found.entry) {
      say_(LogLevel::kInfo, fmt::format("artifacts: {}: from {}", key.step, place));
      std::lock_guard lock(mutex_);
      used_.try_emplace(found.entry->address, std::move(found.entry->use));
      return device::Artifact{std::move(found.entry->artifact), false, fmt::format("from {}", place)};
    }
    if (!found.damage.empty()) {
      return Error{ErrorKind::kFailedPrecondition,
                   fmt::format("[runtime/cache] {} in {} is damaged: {}; export it again", key.step, place,
                               found.damage.front().why)};
    }
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[runtime/cache] {} is not among the artifacts in {}: {}; start with what they were "
                             "exported for, or export them again",
                             key.step, place, why_missing(folder_.manifests(), key))};
  }

 private:
  const Folder folder_;
  const Say say_;
  std::mutex mutex_;
  std::map<std::string, OpenFile> used_;  // by address: protected from eviction
};

/// The manifest of an artifact for export: the one beside it, if it matches, or a new one.
Result<Manifest> manifest_for(const ExportedArtifact& artifact, const std::string& build) {
  const auto bytes = read_small_file(artifact.path.parent_path() / "manifest", kMostManifestBytes);
  if (bytes.has_value()) {
    auto manifest = decode_manifest(bytes.value());
    if (manifest.has_value() && differences(manifest.value().key, artifact.key).empty()) {
      return std::move(manifest).value();
    }
  }
  if (const auto unknown = unknown_fields(artifact.key); !unknown.empty()) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[runtime/cache] cannot export {}: found no value of {}, expected one; export on a machine "
                    "that knows it",
                    artifact.key.step, fmt::join(unknown, ", "))};
  }
  return Manifest{.key = artifact.key,
                  .artifact = {},
                  .made_at = unix_milliseconds(),
                  .took_s = 0.0,
                  .build = build,
                  .host = host_name(),
                  .failure = {}};
}

/// Returns the number of bytes copied; 0 when the folder has the artifact.
Result<uint64_t> export_one(const Folder& folder, const ExportedArtifact& artifact, const std::string& build) {
  LOCKSTEP_TRY(Manifest manifest, manifest_for(artifact, build));
  LOCKSTEP_TRY(const FileDigest digest, digest_of_file(artifact.path));
  if (!manifest.artifact.sha256.empty() && manifest.artifact != digest) {
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[runtime/cache] cannot export {}: {} is damaged; compile it again", artifact.key.step,
                             artifact.path.string())};
  }
  manifest.artifact = digest;
  LOCKSTEP_TRY(LookUp there, folder.find(manifest.key));
  if (there.entry && there.entry->manifest.artifact == digest) return uint64_t{0};
  const std::string address = address_of(manifest.key);
  if (there.entry || !there.damage.empty()) LOCKSTEP_TRY_VOID(folder.set_aside(address));
  LOCKSTEP_TRY(Draft draft, folder.begin(address));
  LOCKSTEP_TRY_VOID(copy_durably(artifact.path, draft.artifact()));
  LOCKSTEP_TRY([[maybe_unused]] const Entry kept, folder.commit(std::move(draft), std::move(manifest)));
  return digest.size;
}

}  // namespace

Result<std::unique_ptr<device::ArtifactCache>> open_artifacts(const std::filesystem::path& folder, Say say) {
  if (!Folder(folder).exists()) return no_artifacts(folder);
  return std::unique_ptr<device::ArtifactCache>(std::make_unique<ArtifactFolder>(folder, std::move(say)));
}

Result<uint64_t> export_artifacts(const std::filesystem::path& folder, std::span<const ExportedArtifact> artifacts,
                                  const std::string& build) {
  const Folder to(folder);
  uint64_t bytes = 0;
  for (const ExportedArtifact& artifact : artifacts) {
    LOCKSTEP_TRY(const uint64_t copied, export_one(to, artifact, build));
    bytes += copied;
  }
  std::error_code ignored;  // the folder of the drafts
  std::filesystem::remove(folder / "making", ignored);
  return bytes;
}

}  // namespace lockstep::cache
