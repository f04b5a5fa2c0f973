// One logger per process, tagged with its rank. Rank 0 speaks at info, the others at warning; everything goes to
// stderr, so stdout belongs to the generated text. The launcher makes it and passes it down.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace lockstep {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Writes lines to stderr: "[r3] message". Thread-safe.
class Log {
 public:
  /// Messages below `level` are dropped.
  Log(int rank, LogLevel level);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void write(LogLevel level, std::string_view message) const;

  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::unique_ptr<spdlog::logger> logger_;
};

}  // namespace lockstep
