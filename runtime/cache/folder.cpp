#include "runtime/cache/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "runtime/cache/key.h"

namespace lockstep::cache {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest";
constexpr const char* kArtifact = "artifact";
constexpr const char* kLog = "log";
constexpr auto kOldDraft = std::chrono::hours(24);

/// The entries of a directory; none when it cannot be read.
std::vector<fs::path> inside(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    paths.push_back(it->path());
  }
  return paths;
}

bool is_of(const fs::path& path, const std::string& address) {
  return path.filename().string().starts_with(address + ".");
}

Result<Manifest> read_manifest(const fs::path& path) {
  LOCKSTEP_TRY(const std::vector<std::byte> bytes, read_small_file(path, kMostManifestBytes));
  return decode_manifest(bytes);
}

/// The total size of an entry's files in bytes.
uint64_t size_of(const fs::path& entry) {
  uint64_t size = 0;
  for (const fs::path& file : inside(entry)) {
    std::error_code failed;
    const uint64_t bytes = fs::file_size(file, failed);
    if (!failed) size += bytes;
  }
  return size;
}

/// Marks an entry as used now, for eviction. Errors are ignored: the folder may be read-only for this user.
void touch(const fs::path& manifest) { ::utimensat(AT_FDCWD, manifest.c_str(), nullptr, 0); }

/// The mismatch between artifact and manifest; empty when they match. Fails on disk errors.
Result<std::string> damage_of(const fs::path& artifact, const FileDigest& expected) {
  std::error_code failed;
  const uint64_t size = fs::file_size(artifact, failed);
  if (failed == std::errc::no_such_file_or_directory) return std::string("artifact: found none");
  if (failed) return file_error("read", artifact, failed.value());
  if (size != expected.size) return fmt::format("artifact: found {} bytes, expected {}", size, expected.size);
  LOCKSTEP_TRY(const FileDigest found, digest_of_file(artifact));
  if (found == expected) return std::string();
  return fmt::format("artifact: found SHA-256 {}…, expected {}…", found.sha256.substr(0, 12),
                     expected.sha256.substr(0, 12));
}

}  // namespace

bool Folder::exists() const {
  std::error_code failed;
  return fs::is_directory(root_ / "entries", failed);
}

fs::path Folder::entry(const std::string& address) const { return root_ / "entries" / address; }

fs::path Folder::lock_path(const std::string& address) const { return root_ / "locks" / address; }

fs::path Folder::failure_log(const std::string& address) const { return root_ / "failures" / address / kLog; }

Result<std::optional<Entry>> Folder::open_entry(const std::string& address, const device::ArtifactKey& key,
                                                std::vector<Damage>& damage) const {
  const fs::path folder = entry(address);
  const fs::path manifest_path = folder / kManifest;
  std::optional<OpenFile> use = open_to_read(manifest_path);
  // An evicting process holds the lock exclusively, so the entry is as good as removed. Without locks, use is not
  // marked.
  if (use && try_lock(*use, LockKind::kShared) == LockAttempt::kHeldElsewhere) return std::optional<Entry>();
  auto manifest = read_manifest(manifest_path);
  std::error_code failed;
  if (!fs::is_directory(folder, failed) || (use && !is_still(*use, manifest_path))) return std::optional<Entry>();
  if (!manifest.has_value()) {
    if (manifest.error().kind == ErrorKind::kUnavailable) return manifest.error();
    damage.push_back({address, "manifest: cannot be read"});
    return std::optional<Entry>();
  }
  if (address_of(manifest.value().key) != address || !differences(manifest.value().key, key).empty()) {
    damage.push_back({address, "manifest: is of another key"});
    return std::optional<Entry>();
  }
  LOCKSTEP_TRY(const std::string why, damage_of(folder / kArtifact, manifest.value().artifact));
  if (!why.empty()) {
    damage.push_back({address, why});
    return std::optional<Entry>();
  }
  touch(manifest_path);
  return std::optional<Entry>(
      Entry{address, std::move(manifest).value(), folder / kArtifact, use ? std::move(*use) : OpenFile()});
}

Result<LookUp> Folder::find(const device::ArtifactKey& key) const {
  if (!unknown_fields(key).empty()) return find_newest(key);
  LookUp found;
  LOCKSTEP_TRY(found.entry, open_entry(address_of(key), key, found.damage));
  return found;
}

Result<LookUp> Folder::find_newest(const device::ArtifactKey& key) const {
  std::vector<Manifest> fitting = manifests();
  std::erase_if(fitting, [&](const Manifest& manifest) { return !differences(manifest.key, key).empty(); });
  std::ranges::sort(fitting, std::ranges::greater(), &Manifest::made_at);
  LookUp found;
  for (const Manifest& manifest : fitting) {
    LOCKSTEP_TRY(found.entry, open_entry(address_of(manifest.key), key, found.damage));
    if (found.entry) break;
  }
  return found;
}

std::vector<Manifest> Folder::manifests() const {
  std::vector<Manifest> all;
  for (const fs::path& path : inside(root_ / "entries")) {
    if (auto manifest = read_manifest(path / kManifest); manifest.has_value()) {
      all.push_back(std::move(manifest).value());
    }
  }
  return all;
}

Result<Draft> Folder::begin(const std::string& address) const {
  LOCKSTEP_TRY(PrivateFolder folder, PrivateFolder::create(root_ / "making", address));
  Draft draft{std::move(folder)};
  LOCKSTEP_TRY_VOID(make_folders(draft.work()));
  return draft;
}

Result<Entry> Folder::commit(Draft draft, Manifest manifest) const {
  if (manifest.artifact.sha256.empty()) {
    LOCKSTEP_TRY(manifest.artifact, digest_of_file(draft.artifact()));
  } else {
    LOCKSTEP_TRY(const std::string why, damage_of(draft.artifact(), manifest.artifact));
    if (!why.empty()) return Error{ErrorKind::kFailedPrecondition, "[runtime/cache] damaged on its way: " + why};
  }
  LOCKSTEP_TRY_VOID(make_durable(draft.artifact()));
  std::error_code ignored;
  fs::remove_all(draft.work(), ignored);
  LOCKSTEP_TRY_VOID(write_durably(draft.folder.path() / kManifest, encode(manifest)));
  const std::string address = address_of(manifest.key);
  LOCKSTEP_TRY_VOID(make_folders(entry(address).parent_path()));
  std::optional<OpenFile> use = open_to_read(draft.folder.path() / kManifest);
  if (use) try_lock(*use, LockKind::kShared);
  LOCKSTEP_TRY(const bool is_new, draft.folder.rename_to(entry(address)));
  if (is_new) {
    return Entry{address, std::move(manifest), entry(address) / kArtifact, use ? std::move(*use) : OpenFile()};
  }
  LOCKSTEP_TRY(LookUp there, find(manifest.key));
  if (there.entry) return std::move(*there.entry);
  return Error{ErrorKind::kUnavailable,
               fmt::format("[runtime/cache] cannot keep an artifact: {} is in the way and damaged; remove it",
                           entry(address).string())};
}

void Folder::remove_left_drafts(const std::string& address) const {
  for (const fs::path& path : inside(root_ / "making")) {
    std::error_code ignored;
    if (is_of(path, address)) fs::remove_all(path, ignored);
  }
}

Result<void> Folder::set_aside(const std::string& address) const {
  const fs::path aside = root_ / "set-aside";
  LOCKSTEP_TRY_VOID(make_folders(aside));
  for (const fs::path& path : inside(aside)) {  // one per address is enough for inspection
    std::error_code ignored;
    if (is_of(path, address)) fs::remove_all(path, ignored);
  }
  std::error_code failed;
  fs::rename(entry(address), aside / fmt::format("{}.{}", address, unix_milliseconds()), failed);
  if (failed && failed != std::errc::no_such_file_or_directory) {
    return file_error("set aside", entry(address), failed.value());
  }
  return ok();
}

std::optional<Manifest> Folder::failure(const std::string& address) const {
  auto manifest = read_manifest(root_ / "failures" / address / kManifest);
  if (!manifest.has_value() || !manifest.value().failure) return std::nullopt;
  return std::move(manifest).value();
}

Result<void> Folder::remember_failure(Draft draft, const Manifest& manifest) const {
  std::error_code ignored;
  fs::remove_all(draft.work(), ignored);
  fs::remove(draft.artifact(), ignored);
  LOCKSTEP_TRY_VOID(write_durably(draft.folder.path() / kManifest, encode(manifest)));
  const std::string address = address_of(manifest.key);
  forget_failure(address);
  LOCKSTEP_TRY_VOID(make_folders(root_ / "failures"));
  LOCKSTEP_TRY([[maybe_unused]] const bool is_new, draft.folder.rename_to(root_ / "failures" / address));
  return ok();
}

void Folder::forget_failure(const std::string& address) const {
  std::error_code ignored;
  fs::remove_all(root_ / "failures" / address, ignored);
}

bool Folder::evict(const fs::path& path) const {
  const std::optional<OpenFile> use = open_to_read(path / kManifest);
  if (use && try_lock(*use, LockKind::kExclusive) != LockAttempt::kLocked) return false;
  // Renamed away first, so other processes never see a partial entry.
  const auto trash = PrivateFolder::create(root_ / "making", path.filename().string());
  if (!trash.has_value()) return false;
  std::error_code failed;
  fs::rename(path, trash.value().path() / "evicted", failed);
  return !failed;
}

/// Removes drafts of crashed makers, unless the same artifact was requested since.
void Folder::remove_old_drafts() const {
  for (const fs::path& path : inside(root_ / "making")) {
    std::error_code failed;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(path, failed);
    if (failed || age < kOldDraft) continue;
    const std::string name = path.filename().string();
    const auto lock = open_to_lock(lock_path(name.substr(0, name.find('.'))));
    if (!lock.has_value() || try_lock(lock.value(), LockKind::kExclusive) != LockAttempt::kLocked) continue;
    fs::remove_all(path, failed);
  }
}

Usage Folder::make_room(std::optional<uint64_t> limit) const {
  struct Candidate {
    fs::path path;
    uint64_t size;
    fs::file_time_type used;
  };
  std::vector<Candidate> candidates;
  Usage usage;
  for (const fs::path& path : inside(root_ / "entries")) {
    std::error_code failed;
    const auto used = fs::last_write_time(path / kManifest, failed);
    candidates.push_back({path, size_of(path), failed ? fs::file_time_type::min() : used});
    usage.bytes += candidates.back().size;
  }
  remove_old_drafts();
  std::ranges::sort(candidates, {}, &Candidate::used);
  for (const Candidate& candidate : candidates) {
    if (!limit || usage.bytes <= *limit) break;
    if (!evict(candidate.path)) continue;
    usage.bytes -= candidate.size;
    ++usage.evicted;
  }
  usage.entries = static_cast<int>(candidates.size()) - usage.evicted;
  return usage;
}

}  // namespace lockstep::cache
