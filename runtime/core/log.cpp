#include "runtime/core/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace lockstep {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

Log::Log(int rank, LogLevel level)
    : logger_(std::make_unique<spdlog::logger>("lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_level(to_spdlog(level));
  logger_->set_pattern(fmt::format("[r{}] %v", rank));
  logger_->flush_on(spdlog::level::debug);
}

Log::~Log() = default;

void Log::write(LogLevel level, std::string_view message) const {
  logger_->log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace lockstep
