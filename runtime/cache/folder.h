// A folder of artifacts by content address: the first tier of a cache, a shared tier, or an export.
//
//   entries/ADDRESS/     manifest  artifact  log      complete, or absent
//   failures/ADDRESS/    manifest  log                failed attempts
//   making/ADDRESS.…/    …                            draft of one maker; renamed to one of the above
//   set-aside/ADDRESS.…/                              damaged entries
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

/// A verified artifact. Cannot be evicted while `use` is open.
struct Entry {
  std::string address;
  Manifest manifest;
  std::filesystem::path artifact;
  OpenFile use;
};

/// An entry with files that do not match its manifest.
struct Damage {
  std::string address;
  std::string why;  // "artifact: found 10 bytes, expected 12"
};

/// The result of a lookup. Without an entry, `damage` may explain why.
struct LookUp {
  std::optional<Entry> entry;
  std::vector<Damage> damage;
};

/// The contents of a folder after eviction.
struct Usage {
  uint64_t bytes = 0;
  int entries = 0;
  int evicted = 0;
};

/// The private folder of a maker or copier, with its files `artifact` and `log`.
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

  /// Finds the artifact of `key`; if the key has unknown fields, the newest match. Hashes and verifies its bytes. Fails
  /// with `kUnavailable` when files cannot be read. @blocking (disk)
  Result<LookUp> find(const device::ArtifactKey& key) const;

  /// All readable manifests of the entries, in no particular order.
  std::vector<Manifest> manifests() const;

  /// Creates a draft for `address`. Fails with `kUnavailable`.
  Result<Draft> begin(const std::string& address) const;
  /// Turns the draft into the entry of its key, on disk when this returns. Fills in the artifact's digest, or checks it
  /// if the manifest has one. If the entry exists already, keeps and returns that. Fails with `kUnavailable`, with
  /// `kFailedPrecondition` when artifact and manifest differ. @blocking (disk)
  Result<Entry> commit(Draft draft, Manifest manifest) const;
  /// Removes abandoned drafts for `address`. Requires its lock.
  void remove_left_drafts(const std::string& address) const;

  /// Moves a damaged entry to set-aside. Requires its lock, if locks are supported. Fails with `kUnavailable`.
  Result<void> set_aside(const std::string& address) const;

  /// The remembered failed attempt; its log, if any, is at `failure_log`.
  std::optional<Manifest> failure(const std::string& address) const;
  std::filesystem::path failure_log(const std::string& address) const;
  /// Remembers a failed attempt and replaces the previous one. Fails with `kUnavailable`.
  Result<void> remember_failure(Draft draft, const Manifest& manifest) const;
  void forget_failure(const std::string& address) const;

  std::filesystem::path lock_path(const std::string& address) const;

  /// Evicts least recently used entries until the rest takes at most `limit` bytes, except entries in use. Also removes
  /// drafts abandoned more than a day ago.
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
