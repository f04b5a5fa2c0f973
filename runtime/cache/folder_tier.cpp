#include <fmt/format.h>

#include "runtime/cache/key_lock.h"
#include "runtime/cache/tier.h"

namespace lockstep::cache {
namespace {

Error damaged(const Damage& damage) {
  return {ErrorKind::kFailedPrecondition, fmt::format("[runtime/cache] a damaged artifact: {}", damage.why)};
}

class FolderTier final : public Tier {
 public:
  explicit FolderTier(std::filesystem::path folder) : folder_(std::move(folder)), name_(folder_.root().string()) {}

  const std::string& name() const override { return name_; }

  Result<std::optional<Manifest>> fetch(const device::ArtifactKey& key, const Draft& draft) override {
    LOCKSTEP_TRY(LookUp found, folder_.find(key));
    if (!found.entry && !found.damage.empty()) return damaged(found.damage.front());
    if (!found.entry) return std::optional<Manifest>();
    LOCKSTEP_TRY_VOID(copy_durably(found.entry->artifact, draft.artifact()));
    return std::optional(std::move(found.entry->manifest));
  }

  Result<void> offer(const Entry& entry) override {
    LOCKSTEP_TRY(LookUp found, folder_.find(entry.manifest.key));
    if (found.entry) return ok();
    const auto lock = KeyLock::acquire(folder_.lock_path(entry.address), {.most_s = 0.0});
    if (!lock.has_value()) {  // the holder is adding the same artifact
      if (lock.error().kind == ErrorKind::kDeadlineExceeded) return ok();
      return lock.error();
    }
    for (const Damage& damage : found.damage) LOCKSTEP_TRY_VOID(folder_.set_aside(damage.address));
    LOCKSTEP_TRY(Draft draft, folder_.begin(entry.address));
    LOCKSTEP_TRY_VOID(copy_durably(entry.artifact, draft.artifact()));
    LOCKSTEP_TRY([[maybe_unused]] const Entry kept, folder_.commit(std::move(draft), entry.manifest));
    return ok();
  }

  std::vector<Manifest> manifests() const override { return folder_.manifests(); }

 private:
  const Folder folder_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Tier> make_folder_tier(std::filesystem::path folder) {
  return std::make_unique<FolderTier>(std::move(folder));
}

bool is_address(const std::string& text) { return text.find("://") != std::string::npos; }

}  // namespace lockstep::cache
