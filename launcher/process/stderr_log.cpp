#include "launcher/process/stderr_log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

namespace lockstep::launcher {
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

Log::Sink stderr_sink(int rank) {
  const auto logger = std::make_shared<spdlog::logger>(  // shared by the copies of the sink
      "lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(rank == 0 ? spdlog::level::info : spdlog::level::warn);
  logger->set_pattern(fmt::format("[r{}] %v", rank));
  logger->flush_on(spdlog::level::debug);
  return [logger](LogLevel level, std::string_view line) {
    logger->log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
  };
}

}  // namespace lockstep::launcher
