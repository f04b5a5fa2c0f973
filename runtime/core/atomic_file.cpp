#include "runtime/core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

namespace lockstep {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

Error cannot_write(const std::filesystem::path& path, const std::error_code& why) {
  const bool is_full = why == std::errc::no_space_on_device || why.value() == EDQUOT;
  return {ErrorKind::kInvalidArgument, fmt::format("[launcher] cannot write {}: {}; {}", path.string(), why.message(),
                                                   is_full ? "make room there, or name a file elsewhere"
                                                           : "name a file in a folder that can be written")};
}

std::error_code last_error() { return {errno, std::generic_category()}; }

/// Makes the empty file `path`, which only its owner may open, and replaces a file that an ended process has left.
bool create_for_owner(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  return descriptor >= 0 && ::close(descriptor) == 0;
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path, FileAccess access) {
  AtomicFile file;
  file.path_ = path;
  file.partial_ = path.string() + fmt::format(".partial-{}", ::getpid());
  if (access == FileAccess::kOwner && !create_for_owner(file.partial_)) return cannot_write(path, last_error());
  file.file_ = std::make_unique<std::ofstream>(file.partial_, std::ios::binary | std::ios::trunc);
  if (!*file.file_) return cannot_write(path, last_error());
  return file;
}

AtomicFile::~AtomicFile() {
  if (file_ == nullptr || partial_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

Result<void> AtomicFile::append(std::string_view text) {
  file_->write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!*file_) return cannot_write(path_, last_error());
  return ok();
}

Result<void> AtomicFile::commit() {
  file_->close();
  if (!*file_) return cannot_write(path_, last_error());
  std::error_code failed;
  std::filesystem::rename(partial_, path_, failed);
  if (failed) return cannot_write(path_, failed);
  partial_.clear();
  return ok();
}

Result<void> write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  LOCKSTEP_TRY(AtomicFile file, AtomicFile::create(path));
  for (const auto& part : parts) {
    LOCKSTEP_TRY_VOID(file.append({reinterpret_cast<const char*>(part.data()), part.size()}));
  }
  return file.commit();
}

Result<void> write_text_file(const std::filesystem::path& path, std::string_view text, FileAccess access) {
  LOCKSTEP_TRY(AtomicFile file, AtomicFile::create(path, access));
  LOCKSTEP_TRY_VOID(file.append(text));
  return file.commit();
}

Result<void> check_writable(const std::filesystem::path& path, std::string_view option) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] {}: found the folder {}, expected the name of a file", option, path.string())};
  }
  if (!std::filesystem::is_directory(folder_of(path), failed) || ::access(folder_of(path).c_str(), W_OK) != 0) {
    return Error{ErrorKind::kInvalidArgument, fmt::format("[launcher] {}: found {}, expected a file in a folder that "
                                                          "exists and can be written",
                                                          option, path.string())};
  }
  return ok();
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::string_view option) {
  std::error_code failed;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, failed)) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[launcher] {}: cannot read {}; name a file that exists", option, path.string())};
  }
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace lockstep
