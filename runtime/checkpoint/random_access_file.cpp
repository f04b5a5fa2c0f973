#include "runtime/checkpoint/random_access_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace lockstep::checkpoint {
namespace {

constexpr size_t kLargestCall = size_t{1} << 30;  // below the system call's limit of 2 GiB

Error system_error(const std::filesystem::path& path, int code) {
  const auto kind = code == ENOENT || code == ENOTDIR ? ErrorKind::kNotFound : ErrorKind::kFailedPrecondition;
  return {kind, fmt::format("[runtime/checkpoint] cannot read {}: found \"{}\", expected a readable file; check the "
                            "model directory",
                            path.string(), std::generic_category().message(code))};
}

/// Whether the file is in the page cache, judged by sampled pages. True if the system does not report it.
bool is_cached(int descriptor, int64_t size) {
  constexpr int64_t kSamples = 256, kMostMissing = 2;
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  if (size <= 0) return true;
  void* map = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, descriptor, 0);
  if (map == MAP_FAILED) return true;
  const int64_t pages = (size + page - 1) / page, samples = std::min(pages, kSamples);
  int64_t missing = 0;
  for (int64_t i = 0; i < samples; ++i) {
    unsigned char present = 1;
    char* at = static_cast<char*>(map) + pages * i / samples * page;
    if (::mincore(at, static_cast<size_t>(page), &present) == 0 && (present & 1) == 0) ++missing;
  }
  ::munmap(map, static_cast<size_t>(size));
  return missing <= std::min(kMostMissing, samples / 2);
}

}  // namespace

Result<std::unique_ptr<RandomAccessFile>> RandomAccessFile::open(const std::filesystem::path& path,
                                                                 PositionalRead call) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return system_error(path, errno);
  struct stat status {};
  const int code = ::fstat(descriptor, &status) != 0 ? errno : S_ISREG(status.st_mode) ? 0 : EISDIR;
  if (code != 0) {
    ::close(descriptor);
    return system_error(path, code);
  }
  return std::unique_ptr<RandomAccessFile>(new RandomAccessFile(path, descriptor, status.st_size, call));
}

RandomAccessFile::RandomAccessFile(std::filesystem::path path, int descriptor, int64_t size, PositionalRead call)
    : path_(std::move(path)),
      descriptor_(descriptor),
      size_(size),
      was_cached_(is_cached(descriptor, size)),
      call_(call) {}

RandomAccessFile::~RandomAccessFile() { ::close(descriptor_); }

void RandomAccessFile::expect(int64_t offset, int64_t bytes) const {
  if (bytes > 0) (void)::posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED);
}

Result<void> RandomAccessFile::read(int64_t offset, std::span<std::byte> dst) const {
  while (!dst.empty()) {
    const ssize_t got = call_(descriptor_, dst.data(), std::min(dst.size(), kLargestCall), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path_, errno);
    if (got == 0) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[runtime/checkpoint] cannot read {}: found its end at byte {}, expected {} more; the "
                               "file is truncated, fetch it again",
                               path_.string(), offset, dst.size())};
    }
    dst = dst.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return ok();
}

}  // namespace lockstep::checkpoint
