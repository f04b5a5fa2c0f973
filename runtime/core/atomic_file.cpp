#include "runtime/core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fstream>
#include <sstream>
#include <system_error>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{1} << 16;
constexpr int kMostLinks = 40;  // as the system follows

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

Error cannot_write(const fs::path& path, const std::error_code& why) {
  const bool is_full = why == std::errc::no_space_on_device || why.value() == EDQUOT;
  return {ErrorKind::kInvalidArgument, fmt::format("[launcher] cannot write {}: {}; {}", path.string(), why.message(),
                                                   is_full ? "make room there, or name a file elsewhere"
                                                           : "name a file in a folder that can be written")};
}

Error has_no_reader(const fs::path& path) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] cannot write {}: found no reader of the pipe, expected one; start its reader before "
                      "the result is written, or name a file",
                      path.string())};
}

std::error_code last_error() { return {errno, std::generic_category()}; }

/// Whether `path`, or what it links to, is a pipe, a device or the like, which another file must not replace.
bool is_special(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

/// Where a chain of symbolic links ends, whether a file is there or not.
Result<fs::path> target_of(const fs::path& path) {
  fs::path target = path;
  std::error_code failed;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, failed)); ++links) {
    if (links == kMostLinks) return cannot_write(path, std::make_error_code(std::errc::too_many_symbolic_link_levels));
    const fs::path next = fs::read_symlink(target, failed);
    if (failed) return cannot_write(path, failed);
    target = folder_of(target) / next;
  }
  return target;
}

/// The file is new where `access` is for its owner alone: what an ended process has left there may be open to others.
Descriptor open_partial(const fs::path& path, FileAccess access) {
  if (access == FileAccess::kUsual) {
    return Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  }
  std::error_code ignored;
  fs::remove(path, ignored);
  return Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

/// Does not wait for the reader of a pipe; writes wait for its room.
Result<Descriptor> open_in_place(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  std::error_code ignored;
  if (!file.is_open() && errno == ENXIO && fs::is_fifo(path, ignored)) return has_no_reader(path);
  if (!file.is_open()) return cannot_write(path, last_error());
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags < 0 || ::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return cannot_write(path, last_error());
  return file;
}

/// Waits for room in a pipe or device. False: its reader has left, and a write would end the process.
bool has_room(int descriptor) {
  pollfd room{.fd = descriptor, .events = POLLOUT, .revents = 0};
  while (::poll(&room, 1, /*timeout=*/-1) < 0 && errno == EINTR) continue;
  return (room.revents & POLLERR) == 0;
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const fs::path& path, FileAccess access) {
  AtomicFile file;
  file.path_ = path;
  if (access == FileAccess::kUsual && is_special(path)) {
    LOCKSTEP_TRY(file.file_, open_in_place(path));
    return file;
  }
  if (access == FileAccess::kUsual) {
    LOCKSTEP_TRY(file.path_, target_of(path));
  }
  const fs::path partial = file.path_.string() + fmt::format(".partial-{}", ::getpid());
  file.file_ = open_partial(partial, access);
  if (!file.file_.is_open()) return cannot_write(path, last_error());
  file.partial_ = partial;
  return file;
}

AtomicFile::~AtomicFile() {
  if (partial_.empty()) return;
  std::error_code ignored;
  fs::remove(partial_, ignored);
}

Result<void> AtomicFile::append(std::string_view text) {
  if (buffer_.size() + text.size() < kBufferBytes) {
    buffer_ += text;
    return ok();
  }
  LOCKSTEP_TRY_VOID(write(buffer_));
  buffer_.clear();
  return write(text);
}

Result<void> AtomicFile::write(std::string_view text) {
  const bool is_in_place = partial_.empty();
  const size_t most = is_in_place ? size_t{PIPE_BUF} : text.size();  // a pipe with room has room for as much at once
  while (!text.empty()) {
    if (is_in_place && !has_room(file_.get())) {
      return cannot_write(path_, std::make_error_code(std::errc::broken_pipe));
    }
    const ssize_t size = ::write(file_.get(), text.data(), std::min(text.size(), most));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return cannot_write(path_, last_error());
    text.remove_prefix(static_cast<size_t>(size));
  }
  return ok();
}

Result<void> AtomicFile::commit() {
  LOCKSTEP_TRY_VOID(write(buffer_));
  buffer_.clear();
  // A file system may have no room for what it has accepted. The descriptor is closed in any case.
  if (::close(file_.release()) != 0) return cannot_write(path_, last_error());
  if (partial_.empty()) return ok();
  std::error_code failed;
  fs::rename(partial_, path_, failed);
  if (failed) return cannot_write(path_, failed);
  partial_.clear();
  return ok();
}

Result<void> write_file(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  LOCKSTEP_TRY(AtomicFile file, AtomicFile::create(path));
  for (const auto& part : parts) {
    LOCKSTEP_TRY_VOID(file.append({reinterpret_cast<const char*>(part.data()), part.size()}));
  }
  return file.commit();
}

Result<void> write_text_file(const fs::path& path, std::string_view text, FileAccess access) {
  LOCKSTEP_TRY(AtomicFile file, AtomicFile::create(path, access));
  LOCKSTEP_TRY_VOID(file.append(text));
  return file.commit();
}

Result<void> check_writable(const fs::path& path, std::string_view option) {
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] {}: found the folder {}, expected the name of a file", option, path.string())};
  }
  if (is_special(path)) {
    if (!fs::is_socket(path, failed) && ::access(path.c_str(), W_OK) == 0) return ok();
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] {}: found {}, expected a file, or a pipe or device that can be written",
                             option, path.string())};
  }
  LOCKSTEP_TRY(const fs::path target, target_of(path));
  if (!fs::is_directory(folder_of(target), failed) || ::access(folder_of(target).c_str(), W_OK) != 0) {
    return Error{ErrorKind::kInvalidArgument, fmt::format("[launcher] {}: found {}, expected a file in a folder that "
                                                          "exists and can be written",
                                                          option, path.string())};
  }
  return ok();
}

Result<std::string> read_text_file(const fs::path& path, std::string_view option) {
  std::error_code failed;
  std::ifstream file(path, std::ios::binary);
  if (!file || fs::is_directory(path, failed)) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[launcher] {}: cannot read {}; name a file that exists", option, path.string())};
  }
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace lockstep
