// A folder of artifacts under content addresses: the first tier of a cache, a tier that machines share, and an export.
//
//   entries/ADDRESS/     manifest  artifact  log      whole, or not there
//   failures/ADDRESS/    manifest  log                what could not be made, and why
//   making/ADDRESS.…/    …                            of one maker; renamed to one of the above
//   set-aside/ADDRESS.…/                              entries that were found damaged
//   locks/ADDRESS                                     held while the artifact of that address is made or replaced
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache/files.h"
#include "runtime/cache/manifest.h"

namespace lockstep::cache {

/// An artifact that was verified. While `use` is open nobody evicts it.
struct Entry {
  std::string address;
  Manifest manifest;
  std::filesystem::path artifact;
  OpenFile use;
};

/// An entry whose files are not what its manifest says.
struct Damage {
  std::string address;
  std::string why;  // "artifact: found 10 bytes, expected 12"
};

/// What a look at a folder brought. Without an entry, `damage` may say why.
struct LookUp {
  std::optional<Entry> entry;
  std::vector<Damage> damage;
};

/// What there is, after room was made.
struct Usage {
  uint64_t bytes = 0;
  int entries = 0;
  int evicted = 0;
};

/// What a maker or a copy fills: `artifact` and `log` lie in a folder of its own.
struct Draft {
  PrivateFolder folder;

  std::filesystem::path artifact() const { return folder.path() / "artifact"; }
  std::filesystem::path log() const { return folder.path() / "log"; }
  std::filesystem::path work() const { return folder.path() / "work"; }
};

class Folder {
 public:
  explicit Folder(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  bool exists() const;

  /// The artifact that `key` asks for; of several, where the key has unknown fields, the newest. Its bytes are hashed.
  /// Fails with `kUnavailable` when files cannot be read. @blocking (disk)
  Result<LookUp> find(const device::ArtifactKey& key) const;

  /// The manifests of all entries whose manifest can be read, in no order.
  std::vector<Manifest> manifests() const;

  /// A new draft for `address`. Fails with `kUnavailable`.
  Result<Draft> begin(const std::string& address) const;
  /// The draft becomes the entry of its key, on disk when this returns. The artifact's digest is filled in; where the
  /// manifest has one, it is held against the artifact. An entry that is there already stays, and is what is returned.
  /// Fails with `kUnavailable`, with `kFailedPrecondition` when the artifact is not the manifest's. @blocking (disk)
  Result<Entry> commit(Draft draft, Manifest manifest) const;
  /// Removes drafts for `address` that their makers left; call with its lock held.
  void remove_left_drafts(const std::string& address) const;

  /// Moves a damaged entry out of the way. Call with its lock held, if there are locks. Fails with `kUnavailable`.
  Result<void> set_aside(const std::string& address) const;

  /// The failed attempt that is remembered; its log, if there was one, is at `failure_log`.
  std::optional<Manifest> failure(const std::string& address) const;
  std::filesystem::path failure_log(const std::string& address) const;
  /// Remembers an attempt in place of the one before. Fails with `kUnavailable`.
  Result<void> remember_failure(Draft draft, const Manifest& manifest) const;
  void forget_failure(const std::string& address) const;

  std::filesystem::path lock_path(const std::string& address) const;

  /// Removes what was used longest ago until the entries take at most `limit` bytes, but nothing that is in use; and
  /// drafts that died a day ago.
  Usage make_room(std::optional<uint64_t> limit) const;

 private:
  std::filesystem::path entry(const std::string& address) const;
  Result<LookUp> find_newest(const device::ArtifactKey& key) const;
  Result<std::optional<Entry>> open_entry(const std::string& address, const device::ArtifactKey& key,
                                          std::vector<Damage>& damage) const;
  bool evict(const std::filesystem::path& entry) const;
  void remove_old_drafts() const;

  std::filesystem::path root_;
};

}  // namespace lockstep::cache
