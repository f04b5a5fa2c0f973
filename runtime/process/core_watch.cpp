#include "runtime/process/core_watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace lockstep::process {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return std::move(text).str();
}

Duration wait_of(const std::filesystem::path& task) {
  std::istringstream numbers(text_of(task / "schedstat"));
  int64_t on_core = 0, waited = 0;
  numbers >> on_core >> waited;
  return Duration(numbers ? waited : 0);
}

}  // namespace

CoreWatch::CoreWatch() : begin_(read()) {}

CoreWatch::Reading CoreWatch::read() {
  Reading reading{.at = SteadyClock().now()};
  std::error_code none;  // without /proc nothing is known
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none)) {
    const std::string name = task.path().filename();
    int thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    reading.waits[thread] = wait_of(task.path());
  }
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) reading.preemptions = usage.ru_nivcsw;
  reading.stolen = parse_stolen(text_of("/proc/stat"), sysconf(_SC_CLK_TCK));
  return reading;
}

CoreLosses CoreWatch::losses() const {
  const Reading end = read();
  CoreLosses losses{.time = end.at - begin_.at,
                    .preemptions = end.preemptions - begin_.preemptions,
                    .stolen = end.stolen - begin_.stolen};
  for (const auto& [thread, waited] : end.waits) {
    const auto before = begin_.waits.find(thread);
    const Duration here = waited - (before == begin_.waits.end() ? Duration{} : before->second);
    // The system counts a wait at its end, so part of it may have been before the watch.
    losses.waited = std::max(losses.waited, std::min(here, losses.time));
  }
  return losses;
}

std::optional<double> core_pressure() { return parse_core_pressure(text_of("/proc/pressure/cpu")); }

std::optional<double> parse_core_pressure(std::string_view text) {
  constexpr std::string_view kStart = "some avg10=";
  if (!text.starts_with(kStart)) return std::nullopt;
  text.remove_prefix(kStart.size());
  double percent = 0.0;
  if (std::from_chars(text.data(), text.data() + text.size(), percent).ec != std::errc()) return std::nullopt;
  return percent / 100;
}

Duration parse_stolen(std::string_view text, int64_t ticks) {
  constexpr int kSteal = 8;  // user nice system idle iowait irq softirq steal
  std::istringstream lines{std::string(text)};
  int64_t stolen = 0, cores = 0;
  for (std::string line; std::getline(lines, line) && line.starts_with("cpu");) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    int64_t count = 0;
    for (int field = 0; field < kSteal; ++field) fields >> count;
    if (!fields) return {};
    if (name == "cpu") stolen = count;
    cores += name != "cpu";
  }
  if (cores == 0 || ticks <= 0) return {};
  return duration_of(static_cast<double>(stolen) / static_cast<double>(ticks * cores));
}

}  // namespace lockstep::process
