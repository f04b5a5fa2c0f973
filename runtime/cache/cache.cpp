#include "runtime/cache/cache.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/cache/folder.h"
#include "runtime/cache/key.h"
#include "runtime/cache/key_lock.h"
#include "runtime/cache/misses.h"
#include "runtime/cache/remote_address.h"
#include "runtime/cache/tier.h"
#include "runtime/core/ids.h"

namespace lockstep::cache {
namespace {

using device::Artifact;
using device::ArtifactKey;

/// Failures caused by the current state of the machine (no compiler, disk full), not by the artifact. The next start
/// tries again.
bool may_pass(ErrorKind kind) {
  return kind == ErrorKind::kUnavailable || kind == ErrorKind::kNotFound || kind == ErrorKind::kPeerLost;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string size_text(uint64_t bytes) { return to_string(Bytes(static_cast<int64_t>(bytes))); }

Error not_cached(const ArtifactKey& key, const std::string& why, const std::string& places) {
  return {
      ErrorKind::kFailedPrecondition,
      fmt::format("[runtime/cache] {} is not in the compile cache: {}; compile it ahead of time (lockstep compile), "
                  "or allow it to be compiled here (without --require-cached). Looked in {}",
                  key.step, why, places)};
}

Error made_nothing(const ArtifactKey& key) {
  return {ErrorKind::kInternal,
          fmt::format("[runtime/cache] {} was compiled: found no artifact, expected one; report it", key.step)};
}

class TieredCache final : public device::ArtifactCache {
 public:
  explicit TieredCache(Options options) : options_(std::move(options)), folder_(options_.folder) {}

  Result<void> open_further_tiers();
  Result<Artifact> get(const ArtifactKey& key, const device::MakeArtifact& make) override;

 private:
  /// A further tier. A lost tier did not respond and is not used again.
  struct Further {
    std::unique_ptr<Tier> tier;
    bool is_lost = false;
  };

  Result<Artifact> get_locked(const ArtifactKey& key, const device::MakeArtifact& make, const KeyLock& locked);
  Result<LookUp> look(const ArtifactKey& key);
  std::optional<Error> remembered_failure(const ArtifactKey& key) const;
  Result<KeyLock> lock(const ArtifactKey& key) const;

  Result<std::optional<Artifact>> fetch(const ArtifactKey& key);
  Result<std::optional<Entry>> fetch_from(Further& further, const ArtifactKey& key);
  void offer(const Entry& entry, size_t tiers);
  bool is_lost(const Further& further) const;
  void note_trouble(Further& further, const ArtifactKey& key, const Error& error);

  Result<Artifact> make_it(const ArtifactKey& key, const device::MakeArtifact& make);
  Error keep_failure(Draft draft, Manifest manifest) const;
  void make_room(const ArtifactKey& key) const;
  Artifact use(Entry entry, std::string origin);
  Artifact hold(Entry entry, std::string origin);

  std::string why_missing(const ArtifactKey& key) const;
  std::string places() const;
  Manifest manifest_of(const ArtifactKey& key, double took_s) const;
  void say(LogLevel level, const ArtifactKey& key, const std::string& line) const;
  void say_once(LogLevel level, const ArtifactKey& key, const std::string& line);

  const Options options_;
  const Folder folder_;
  const int64_t opened_at_ = unix_milliseconds();
  std::vector<Further> further_;          // fixed once opened, except `is_lost`
  mutable std::mutex mutex_;              // protects `is_lost` and the fields below
  std::map<std::string, OpenFile> used_;  // by address: protected from eviction
  std::set<std::string> told_;            // lines already logged
};

Result<void> TieredCache::open_further_tiers() {
  for (const std::string& place : options_.further) {
    if (!is_address(place)) {
      further_.push_back({make_folder_tier(place)});
      continue;
    }
    auto tier = make_remote_tier(place, options_);
    if (tier.has_value()) {
      further_.push_back({std::move(tier).value()});
    } else if (tier.error().kind == ErrorKind::kUnavailable) {
      options_.say(LogLevel::kWarning, "compile cache: goes on without its remote: " + tier.error().message);
    } else {
      return tier.error();
    }
  }
  return ok();
}

// --- one artifact --------------------------------------------------------------------------------------------------

Result<Artifact> TieredCache::get(const ArtifactKey& key, const device::MakeArtifact& make) {
  LOCKSTEP_TRY(LookUp found, look(key));
  if (found.entry) return use(std::move(*found.entry), fmt::format("from {}", folder_.root().string()));
  if (further_.empty()) {
    if (auto failed = remembered_failure(key)) return std::move(*failed);
    if (options_.require_cached) return not_cached(key, why_missing(key), places());
  }
  LOCKSTEP_TRY(const KeyLock locked, lock(key));
  return get_locked(key, make, locked);
}

Result<Artifact> TieredCache::get_locked(const ArtifactKey& key, const device::MakeArtifact& make,
                                         const KeyLock& locked) {
  LOCKSTEP_TRY(LookUp found, look(key));  // another process may have made or tried it meanwhile
  if (found.entry) {
    return use(std::move(*found.entry),
               fmt::format("from {}, where another process has just put it", folder_.root().string()));
  }
  if (locked.excludes()) folder_.remove_left_drafts(address_of(key));
  const std::string why = why_missing(key);
  for (const Damage& damage : found.damage) LOCKSTEP_TRY_VOID(folder_.set_aside(damage.address));
  LOCKSTEP_TRY(std::optional<Artifact> fetched, fetch(key));
  if (fetched) return std::move(*fetched);
  if (auto failed = remembered_failure(key)) return std::move(*failed);
  if (options_.require_cached) return not_cached(key, why, places());
  say(LogLevel::kInfo, key, fmt::format("not there ({}), so it is compiled", why));
  return make_it(key, make);
}

Result<LookUp> TieredCache::look(const ArtifactKey& key) {
  LOCKSTEP_TRY(LookUp found, folder_.find(key));
  for (const Damage& damage : found.damage) {
    say_once(
        LogLevel::kWarning, key,
        fmt::format("{} in {} is damaged ({}); it is not used", damage.address, folder_.root().string(), damage.why));
  }
  return found;
}

std::optional<Error> TieredCache::remembered_failure(const ArtifactKey& key) const {
  const std::string address = address_of(key);
  const std::optional<Manifest> attempt = folder_.failure(address);
  if (!attempt) return std::nullopt;
  const bool is_old = attempt->made_at < opened_at_;
  if (is_old && (options_.retry_failed || may_pass(attempt->failure->kind))) return std::nullopt;
  return Error{attempt->failure->kind,
               fmt::format("{} ({} on {}, after {:.1f} s on {}; log: {}{})", attempt->failure->message,
                           is_old ? "so it ended" : "so it ended in this run", time_text(attempt->made_at),
                           attempt->took_s, attempt->host, folder_.failure_log(address).string(),
                           is_old ? "; --retry-failed compiles it again" : "")};
}

Result<KeyLock> TieredCache::lock(const ArtifactKey& key) const {
  const LockWait wait{.most_s = options_.wait_s, .abort = options_.abort, .told = [&](const std::string& holder) {
                        say(LogLevel::kInfo, key, fmt::format("waits for {}, at most {:g} s", holder, options_.wait_s));
                      }};
  return KeyLock::acquire(folder_.lock_path(address_of(key)), wait);
}

// --- further tiers -------------------------------------------------------------------------------------------------

Result<std::optional<Artifact>> TieredCache::fetch(const ArtifactKey& key) {
  for (size_t i = 0; i < further_.size(); ++i) {
    if (is_lost(further_[i])) continue;
    LOCKSTEP_TRY(std::optional<Entry> entry, fetch_from(further_[i], key));
    if (!entry) continue;
    folder_.forget_failure(entry->address);
    offer(*entry, i);  // to the tiers without a copy
    make_room(key);
    return std::optional(use(std::move(*entry), fmt::format("from {}", further_[i].tier->name())));
  }
  return std::optional<Artifact>();
}

/// Logs problems of the tier. Only local problems and an abort are errors.
Result<std::optional<Entry>> TieredCache::fetch_from(Further& further, const ArtifactKey& key) {
  LOCKSTEP_TRY(Draft draft, folder_.begin(address_of(key)));
  auto manifest = further.tier->fetch(key, draft);
  if (!manifest.has_value()) {
    if (manifest.error().kind == ErrorKind::kCancelled) return manifest.error();
    note_trouble(further, key, manifest.error());
    return std::optional<Entry>();
  }
  if (!manifest.value()) return std::optional<Entry>();
  auto entry = folder_.commit(std::move(draft), std::move(*manifest.value()));
  if (entry.has_value()) return std::optional(std::move(entry).value());
  if (entry.error().kind != ErrorKind::kFailedPrecondition) return entry.error();
  note_trouble(further, key, entry.error());
  return std::optional<Entry>();
}

void TieredCache::offer(const Entry& entry, size_t tiers) {
  for (size_t i = 0; i < tiers; ++i) {
    if (is_lost(further_[i])) continue;
    const auto offered = further_[i].tier->offer(entry);
    if (!offered.has_value()) note_trouble(further_[i], entry.manifest.key, offered.error());
  }
}

bool TieredCache::is_lost(const Further& further) const {
  std::lock_guard lock(mutex_);
  return further.is_lost;
}

void TieredCache::note_trouble(Further& further, const ArtifactKey& key, const Error& error) {
  const bool is_lost = error.kind == ErrorKind::kUnavailable || error.kind == ErrorKind::kDeadlineExceeded;
  if (is_lost) {
    std::lock_guard lock(mutex_);
    if (std::exchange(further.is_lost, true)) return;
  }
  say_once(LogLevel::kWarning, key,
           fmt::format("goes on without {}{}: {}", further.tier->name(), is_lost ? " from now on" : "", error.message));
}

// --- making --------------------------------------------------------------------------------------------------------

Result<Artifact> TieredCache::make_it(const ArtifactKey& key, const device::MakeArtifact& make) {
  const std::string address = address_of(key);
  LOCKSTEP_TRY(Draft draft, folder_.begin(address));
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  Result<void> made = make({.folder = draft.work(), .artifact = draft.artifact(), .log = draft.log()});
  Manifest manifest = manifest_of(key, to_seconds(clock.now() - begin));
  std::error_code failed;
  if (made.has_value() && !std::filesystem::is_regular_file(draft.artifact(), failed)) made = made_nothing(key);
  if (!made.has_value()) {
    manifest.failure = made.error();
    return keep_failure(std::move(draft), std::move(manifest));
  }
  std::string origin = fmt::format("compiled in {:.1f} s", manifest.took_s);
  LOCKSTEP_TRY(Entry entry, folder_.commit(std::move(draft), std::move(manifest)));
  say(LogLevel::kInfo, key, fmt::format("{} ({})", origin, size_text(entry.manifest.artifact.size)));
  folder_.forget_failure(address);
  offer(entry, further_.size());
  Artifact artifact = hold(std::move(entry), std::move(origin));
  artifact.was_made = true;
  make_room(key);
  return artifact;
}

/// The error that `get` returns. It is not remembered when the attempt was cancelled, or when the key has unknown
/// fields.
Error TieredCache::keep_failure(Draft draft, Manifest manifest) const {
  Error error = *manifest.failure;
  const bool is_remembered = error.kind != ErrorKind::kCancelled && unknown_fields(manifest.key).empty();
  if (!is_remembered) return error;
  const std::string address = address_of(manifest.key);
  // The log is about to be renamed, so a message with the old path gets the new one.
  const std::string log = folder_.failure_log(address).string();
  error.message = replaced(error.message, draft.log().string(), log);
  manifest.failure->message = error.message;
  const auto kept = folder_.remember_failure(std::move(draft), manifest);
  if (!kept.has_value()) {
    say(LogLevel::kWarning, manifest.key, "its failure is not remembered: " + kept.error().message);
  } else if (error.message.find(log) == std::string::npos) {
    error.message += fmt::format(" (log: {})", log);
  }
  return error;
}

void TieredCache::make_room(const ArtifactKey& key) const {
  const Usage usage = folder_.make_room(options_.size_limit);
  say(LogLevel::kInfo, key,
      fmt::format(
          "{} now holds {} artifact{}, {}{}", folder_.root().string(), usage.entries, usage.entries == 1 ? "" : "s",
          size_text(usage.bytes),
          usage.evicted == 0 ? "" : fmt::format("; {} that had not been used for longest made room", usage.evicted)));
  if (options_.size_limit && usage.bytes > *options_.size_limit) {
    say(LogLevel::kWarning, key,
        fmt::format("{} is larger than its limit of {}: the rest is in use", folder_.root().string(),
                    size_text(*options_.size_limit)));
  }
}

Artifact TieredCache::use(Entry entry, std::string origin) {
  const Manifest& manifest = entry.manifest;
  say(LogLevel::kInfo, manifest.key,
      fmt::format("{} ({}, made on {} in {:.1f} s)", origin, size_text(manifest.artifact.size),
                  time_text(manifest.made_at), manifest.took_s));
  return hold(std::move(entry), std::move(origin));
}

Artifact TieredCache::hold(Entry entry, std::string origin) {
  std::lock_guard lock(mutex_);
  used_.insert_or_assign(entry.address, std::move(entry.use));
  return {.path = std::move(entry.artifact), .was_made = false, .origin = std::move(origin)};
}

// --- messages --------------------------------------------------------------------------------------------------------

std::string TieredCache::why_missing(const ArtifactKey& key) const {
  std::vector<Manifest> there = folder_.manifests();
  for (const Further& further : further_) {
    if (is_lost(further)) continue;
    for (Manifest& manifest : further.tier->manifests()) there.push_back(std::move(manifest));
  }
  return cache::why_missing(there, key);
}

std::string TieredCache::places() const {
  std::string all = folder_.root().string();
  for (const Further& further : further_) all += fmt::format(", {}", further.tier->name());
  return all;
}

Manifest TieredCache::manifest_of(const ArtifactKey& key, double took_s) const {
  return {.key = key,
          .artifact = {},
          .made_at = unix_milliseconds(),
          .took_s = took_s,
          .build = options_.build,
          .host = host_name(),
          .failure = {}};
}

void TieredCache::say(LogLevel level, const ArtifactKey& key, const std::string& line) const {
  options_.say(level, fmt::format("compile cache: {}: {}", key.step, line));
}

void TieredCache::say_once(LogLevel level, const ArtifactKey& key, const std::string& line) {
  {
    std::lock_guard lock(mutex_);
    if (!told_.insert(line).second) return;
  }
  say(level, key, line);
}

}  // namespace

Result<void> Options::validate() const {
  if (folder.empty()) {
    return Error{ErrorKind::kInvalidArgument,
                 "[runtime/cache] found no folder for compiled artifacts, expected one; name it with --compile-cache"};
  }
  for (const std::string& place : further) {
    if (is_address(place)) LOCKSTEP_TRY_VOID(remote_address(place, account));
  }
  return ok();
}

Result<std::unique_ptr<device::ArtifactCache>> make_cache(Options options) {
  LOCKSTEP_TRY_VOID(options.validate());
  auto cache = std::make_unique<TieredCache>(std::move(options));
  LOCKSTEP_TRY_VOID(cache->open_further_tiers());
  return std::unique_ptr<device::ArtifactCache>(std::move(cache));
}

}  // namespace lockstep::cache
