// A slow disk for LD_PRELOAD: each read of a file behind its first 4 KiB, where a model's weights are, takes a minute.
#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>

extern "C" ssize_t pread(int file, void* to, size_t bytes, off_t offset) {
  using Original = ssize_t (*)(int, void*, size_t, off_t);
  static const auto original = reinterpret_cast<Original>(dlsym(RTLD_NEXT, "pread"));
  constexpr int kMinute = 60000;
  if (offset >= 4096) poll(nullptr, 0, kMinute);
  return original(file, to, bytes, offset);
}
