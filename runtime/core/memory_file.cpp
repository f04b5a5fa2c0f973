#include "runtime/core/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace lockstep {

std::optional<Descriptor> make_memory_file(const char* name, std::string_view bytes, Inherited inherited) {
  Descriptor file(::memfd_create(name, inherited == Inherited::kYes ? 0 : MFD_CLOEXEC));
  if (!file.is_open()) return std::nullopt;
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno != EINTR) return std::nullopt;
    done += written > 0 ? static_cast<size_t>(written) : 0;
  }
  return file;
}

std::optional<std::string> read_file(const Descriptor& file) {
  std::string bytes;
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t size = ::pread(file.get(), buffer.data(), buffer.size(), static_cast<off_t>(bytes.size()));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return std::nullopt;
    if (size == 0) return bytes;
    bytes.append(buffer.data(), static_cast<size_t>(size));
  }
}

}  // namespace lockstep
