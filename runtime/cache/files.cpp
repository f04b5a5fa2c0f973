#include "runtime/cache/files.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

namespace lockstep::cache {
namespace {

namespace fs = std::filesystem;

std::string_view advice(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT: return "make room, or name a folder on another disk with --compile-cache";
    case EROFS:
    case EACCES:
    case EPERM: return "name a folder that can be read and written with --compile-cache";
    default: return "name another folder with --compile-cache";
  }
}

Result<void> write_all(const OpenFile& file, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(file.get(), bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return file_error("write", path, size < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(size));
  }
  return ok();
}

}  // namespace

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  if (this == &other) return *this;
  if (is_open()) ::close(descriptor_);
  descriptor_ = other.release();
  return *this;
}

OpenFile::~OpenFile() {
  if (is_open()) ::close(descriptor_);
}

int OpenFile::release() { return std::exchange(descriptor_, -1); }

LockAttempt try_lock(const OpenFile& file, LockKind kind) {
  while (::flock(file.get(), (kind == LockKind::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? LockAttempt::kHeldElsewhere : LockAttempt::kNoLocks;
  }
  return LockAttempt::kLocked;
}

bool is_still(const OpenFile& file, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

std::optional<OpenFile> open_to_read(const fs::path& path) {
  OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return std::nullopt;
  return file;
}

Result<OpenFile> open_to_lock(const fs::path& path) {
  OpenFile file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open()) return file_error("lock", path, errno);
  return file;
}

Result<std::vector<std::byte>> read_small_file(const fs::path& path, uint64_t most) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    Error error = file_error("read", path, errno);
    if (errno == ENOENT || errno == ENOTDIR) error.kind = ErrorKind::kNotFound;
    return error;
  }
  std::vector<std::byte> bytes;
  std::array<std::byte, 4096> piece;
  while (true) {
    const ssize_t size = ::read(file.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return file_error("read", path, errno);
    if (size == 0) return bytes;
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + size);
    if (bytes.size() > most) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[runtime/cache] {} is longer than {} bytes", path.string(), most)};
    }
  }
}

Result<void> write_durably(const fs::path& path, std::span<const std::byte> bytes) {
  const OpenFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) return file_error("write", path, errno);
  LOCKSTEP_TRY_VOID(write_all(file, bytes, path));
  if (::fsync(file.get()) != 0) return file_error("write", path, errno);
  return ok();
}

Result<void> make_durable(const fs::path& path) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return file_error("read", path, errno);
  if (::fsync(file.get()) != 0) return file_error("write", path, errno);
  return ok();
}

Result<void> copy_durably(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, failed);
  if (failed) return file_error("copy a file to", to, failed.value());
  return make_durable(to);
}

Result<void> make_folders(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return file_error("make", folder, failed.value());
  return ok();
}

Result<PrivateFolder> PrivateFolder::create(const fs::path& parent, const std::string& name) {
  static std::atomic<int> next = 0;
  LOCKSTEP_TRY_VOID(make_folders(parent));
  while (true) {
    const fs::path path = parent / fmt::format("{}.{}.{}.{}", name, host_name(), process_id(), next++);
    if (::mkdir(path.c_str(), 0777) == 0) return PrivateFolder(path);
    if (errno != EEXIST) return file_error("make", path, errno);  // left by an earlier process with the same id
  }
}

PrivateFolder::~PrivateFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Result<bool> PrivateFolder::rename_to(const fs::path& to) {
  std::error_code failed;
  fs::rename(path_, to, failed);
  if (failed == std::errc::directory_not_empty || failed == std::errc::file_exists) return false;
  if (failed) return file_error("make", to, failed.value());
  path_.clear();
  return true;
}

Error file_error(std::string_view verb, const fs::path& path, int code) {
  return {ErrorKind::kUnavailable,
          fmt::format("[runtime/cache] cannot {} {}: {}; {}", verb, path.string(), std::strerror(code), advice(code))};
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

int process_id() { return ::getpid(); }

int64_t unix_milliseconds() {
  using std::chrono::milliseconds;
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string time_text(int64_t unix_milliseconds) {
  constexpr int64_t kYear9999 = 253'402'300'799;  // a damaged manifest may contain any number
  const auto seconds = static_cast<std::time_t>(std::clamp<int64_t>(unix_milliseconds / 1000, 0, kYear9999));
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(seconds));
}

}  // namespace lockstep::cache
