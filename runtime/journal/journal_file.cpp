#include "runtime/journal/journal_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace lockstep::journal {
namespace {

constexpr int64_t kReserve = 1 << 16;  // bytes that must be free at the start

Error cannot_use(const std::filesystem::path& path, std::string_view why) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/journal] cannot use {}: {}; name a folder that exists, or can be made, and be written",
                      path.string(), why)};
}

Error in_use(const std::filesystem::path& path) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[runtime/journal] {} is in use: found another process that has it, expected none; wait for its "
                      "end, or begin a journal in another folder",
                      path.string())};
}

Error failed(std::string_view what, const std::filesystem::path& path, int code) {
  return {ErrorKind::kUnavailable,
          fmt::format("[runtime/journal] cannot {} {}: {}; what was recorded before is kept: make room or repair the "
                      "disk, then start again",
                      what, path.string(), std::strerror(code))};
}

/// Makes a new file's name durable, because a crash may otherwise lose it. Errors are ignored: some file systems reject
/// it for folders.
void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

/// Makes `folder` if it is missing.
Result<void> make_folder(const std::filesystem::path& folder) {
  std::error_code code;
  if (std::filesystem::is_directory(folder, code)) return ok();
  if (!std::filesystem::create_directory(folder, code)) {
    return cannot_use(folder, code ? code.message() : "it is no folder");
  }
  sync_folder(folder.has_parent_path() ? folder.parent_path() : std::filesystem::path("."));
  return ok();
}

}  // namespace

std::filesystem::path path_of_file(const std::filesystem::path& folder) { return folder / "rows.journal"; }

Result<std::unique_ptr<JournalFile>> JournalFile::open(const std::filesystem::path& folder, Access access) {
  const std::filesystem::path path = path_of_file(folder);
  const bool writes = access == Access::kExclusive;
  if (writes) LOCKSTEP_TRY_VOID(make_folder(folder));
  const int descriptor = ::open(path.c_str(), O_CLOEXEC | (writes ? O_RDWR | O_CREAT : O_RDONLY), 0644);
  if (descriptor < 0) {
    if (!writes && errno == ENOENT) {
      return Error{ErrorKind::kNotFound, fmt::format("[runtime/journal] there is no {}", path.string())};
    }
    return cannot_use(path, std::strerror(errno));
  }
  std::unique_ptr<JournalFile> file(new JournalFile(path, descriptor));
  LOCKSTEP_TRY_VOID(file->prepare(access));
  if (writes && file->size() == 0) sync_folder(folder);  // the file may be new
  return file;
}

JournalFile::~JournalFile() { ::close(descriptor_); }

Result<void> JournalFile::prepare(Access access) {
  if (access == Access::kExclusive && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return in_use(path_);
    return failed("lock", path_, errno);
  }
  struct stat facts {};
  if (::fstat(descriptor_, &facts) != 0) return failed("look at", path_, errno);
  if (!S_ISREG(facts.st_mode)) return cannot_use(path_, "it is not a file");
  size_ = facts.st_size;
  if (access == Access::kReadOnly) return ok();
  // Not every file system supports reservation, so only errors about a full disk count.
  if (::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, size_, kReserve) != 0 && (errno == ENOSPC || errno == EDQUOT)) {
    return failed("add to", path_, errno);
  }
  return ok();
}

Result<void> JournalFile::read(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t size = ::pread(descriptor_, to.data(), to.size(), offset);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return failed("read", path_, size < 0 ? errno : EIO);
    offset += size;
    to = to.subspan(static_cast<size_t>(size));
  }
  return ok();
}

Medium JournalFile::medium() const {
  return {.size = size_, .read = [this](int64_t offset, std::span<std::byte> to) { return read(offset, to); }};
}

Result<void> JournalFile::write_all(int64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t size = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return failed("write", path_, size < 0 ? errno : EIO);
    offset += size;
    bytes = bytes.subspan(static_cast<size_t>(size));
  }
  if (::fdatasync(descriptor_) != 0) return failed("write", path_, errno);
  return ok();
}

Result<void> JournalFile::write_end(int64_t offset, std::span<const std::byte> bytes) {
  if (size_ > offset && ::ftruncate(descriptor_, offset) != 0) return failed("cut", path_, errno);
  size_ = offset;
  const Result<void> written = write_all(offset, bytes);
  if (written.has_value()) {
    size_ = offset + std::ssize(bytes);
  } else {
    [[maybe_unused]] const int cut = ::ftruncate(descriptor_, offset);  // if this fails, readers drop the rest
  }
  return written;
}

}  // namespace lockstep::journal
