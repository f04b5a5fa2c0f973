#include "launcher/measure/bench/suite/file_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep::launcher::suite {
namespace {

constexpr int64_t kPiece = int64_t{8} << 20;   // of a file, read by one thread
constexpr int64_t kBuffer = int64_t{1} << 18;  // of a read: stays in the second-level cache

/// An open file that is closed with it.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

struct File {
  std::filesystem::path path;
  int64_t bytes = 0;
};

Error unreadable(const std::filesystem::path& path, std::string_view what) {
  return {ErrorKind::kUnavailable, fmt::format("[launcher/bench] cannot {} {}: {}; give another folder", what,
                                               path.string(), std::strerror(errno))};
}

std::vector<File> files_that_end_with(std::string_view extension, const std::filesystem::path& folder) {
  std::vector<File> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (!entry.is_regular_file(failed) || entry.path().extension() != extension) continue;
    files.push_back({entry.path(), static_cast<int64_t>(entry.file_size(failed))});
  }
  return files;
}

/// What loading reads: folders often hold the same weights in other formats, too.
Result<std::vector<File>> files_of(const std::filesystem::path& folder) {
  std::vector<File> files = files_that_end_with(".safetensors", folder);
  if (files.empty()) files = files_that_end_with(".bin", folder);
  if (!files.empty()) return files;
  return Error{ErrorKind::kNotFound, fmt::format("[launcher/bench] --checkpoint: found no *.safetensors or *.bin in "
                                                 "{}, expected a Hugging Face directory",
                                                 folder.string())};
}

bool read_piece(const File& file, int64_t begin, std::vector<std::byte>& buffer) {
  const OpenFile open(file.path);
  const int64_t end = std::min(begin + kPiece, file.bytes);
  while (begin < end) {
    const ssize_t got = ::pread(open.descriptor(), buffer.data(), static_cast<size_t>(std::min(kBuffer, end - begin)),
                                static_cast<off_t>(begin));
    if (got <= 0) return false;
    begin += got;
  }
  return true;
}

/// Pages of a file that are in memory.
Result<int64_t> cached_bytes(const File& file) {
  if (file.bytes == 0) return 0;
  const OpenFile open(file.path);
  const auto size = static_cast<size_t>(file.bytes);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, open.descriptor(), 0);
  if (map == MAP_FAILED) return unreadable(file.path, "map");
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> there((size + page - 1) / page);
  const int failed = ::mincore(map, size, there.data());
  ::munmap(map, size);
  if (failed != 0) return unreadable(file.path, "look at the cache of");
  return static_cast<int64_t>(page) * std::ranges::count_if(there, [](unsigned char c) { return (c & 1) != 0; });
}

}  // namespace

Result<FileReading> read_files(const std::filesystem::path& folder, int threads) {
  LOCKSTEP_TRY(const std::vector<File> files, files_of(folder));
  std::vector<std::pair<const File*, int64_t>> pieces;
  FileReading reading;
  for (const File& file : files) {
    for (int64_t begin = 0; begin < file.bytes; begin += kPiece) pieces.emplace_back(&file, begin);
    reading.bytes += file.bytes;
  }
  std::atomic<size_t> next = 0;
  std::atomic<const File*> failed = nullptr;
  const auto work = [&] {
    std::vector<std::byte> buffer(kBuffer);
    for (size_t i = next++; i < pieces.size() && failed == nullptr; i = next++) {
      if (!read_piece(*pieces[i].first, pieces[i].second, buffer)) failed = pieces[i].first;
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  reading.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (failed != nullptr) return unreadable(failed.load()->path, "read");
  return reading;
}

Result<void> drop_from_cache(const std::filesystem::path& folder) {
  LOCKSTEP_TRY(const std::vector<File> files, files_of(folder));
  int64_t bytes = 0, kept = 0;
  for (const File& file : files) {
    const OpenFile open(file.path);
    if (open.descriptor() < 0) return unreadable(file.path, "open");
    ::fdatasync(open.descriptor());  // only what is on the disk can be forgotten
    ::posix_fadvise(open.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    LOCKSTEP_TRY(const int64_t cached, cached_bytes(file));
    bytes += file.bytes;
    kept += cached;
  }
  if (kept * 100 <= bytes) return ok();
  return Error{ErrorKind::kUnavailable,
               fmt::format("[launcher/bench] cannot empty the page cache of {}: found {} of {} bytes in memory, "
                           "expected none; use a folder on a disk",
                           folder.string(), kept, bytes)};
}

}  // namespace lockstep::launcher::suite
