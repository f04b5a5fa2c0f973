// What ranks have to say while they work, for whoever listens. Libraries take a Log; what becomes of its lines is the
// program's business.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace lockstep {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Passes lines to a sink. As thread-safe as that is.
class Log {
 public:
  using Sink = std::function<void(LogLevel level, std::string_view line)>;

  /// Without a sink nothing is said.
  explicit Log(Sink sink = {}) : sink_(std::move(sink)) {}
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void write(LogLevel level, std::string_view line) const {
    if (sink_) sink_(level, line);
  }

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
  const Sink sink_;
};

}  // namespace lockstep
