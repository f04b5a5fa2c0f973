#include "launcher/inspect/compile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::launcher {
namespace {

using Json = nlohmann::ordered_json;

int64_t count(std::span<const device::CompiledStep> steps, std::string_view status) {
  return std::ranges::count(steps, status, &device::CompiledStep::status);
}

Json to_json(const device::CompiledStep& step) {
  Json fields = Json::object();
  for (const auto& [name, value] : step.key.fields) fields[name] = value;
  Json json{{"name", step.name},
            {"status", step.status()},
            {"seconds", step.seconds},
            {"module_bytes", step.module.value},
            {"key", fields}};
  if (step.artifact.has_value()) {
    json["bytes"] = step.size.value;
    json["path"] = step.artifact.value().path.string();
    json["origin"] = step.artifact.value().origin;
  } else {
    json["error"] = step.artifact.error().message;
  }
  return json;
}

/// The artifact's size and place, or the first line of its error.
std::string outcome_of(const device::CompiledStep& step) {
  if (step.artifact.has_value()) {
    return fmt::format("{:>12}  {}", to_string(step.size), step.artifact.value().path.string());
  }
  const std::string& message = step.artifact.error().message;
  return message.substr(0, message.find('\n'));
}

}  // namespace

std::vector<device::CompiledStep> compile_steps(const device::AheadCompilation& compilation, int jobs,
                                                const StepDone& done) {
  std::vector<std::optional<device::CompiledStep>> compiled(compilation.steps());
  std::atomic<size_t> next = 0;
  std::mutex telling;
  const auto work = [&] {
    for (size_t i = next++; i < compiled.size(); i = next++) {
      compiled[i] = compilation.compile(i);
      const std::lock_guard lock(telling);
      done(*compiled[i]);
    }
  };
  {
    std::vector<std::jthread> others;
    const size_t threads = std::min(static_cast<size_t>(jobs), compiled.size());
    for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  std::vector<device::CompiledStep> all;
  for (std::optional<device::CompiledStep>& step : compiled) all.push_back(std::move(*step));
  return all;
}

std::string to_line(const device::CompiledStep& step) {
  return fmt::format("{:<14} {:<8} {:>9.1f} s  {}", step.name, step.status(), step.seconds, outcome_of(step));
}

std::string to_summary(const device::CompilerFacts& compiler, std::span<const device::CompiledStep> steps,
                       double seconds) {
  const int64_t failed = count(steps, "failed");
  const std::string version = compiler.version.empty() ? "of unknown version" : compiler.version;
  return fmt::format("{} graphs for {}, compiler {}: {} compiled, {} cached{}; {:.1f} s", steps.size(), compiler.target,
                     version, count(steps, "compiled"), count(steps, "cached"),
                     failed > 0 ? fmt::format(", {} failed", failed) : "", seconds);
}

std::string to_json(const device::CompilerFacts& compiler, std::span<const device::CompiledStep> steps,
                    double seconds) {
  Json json{{"compiler", compiler.program},
            {"version", compiler.version},
            {"target", compiler.target},
            {"compiled", count(steps, "compiled")},
            {"cached", count(steps, "cached")},
            {"failed", count(steps, "failed")},
            {"seconds", seconds},
            {"graphs", Json::array()}};
  for (const device::CompiledStep& step : steps) json["graphs"].push_back(to_json(step));
  return json.dump(2) + "\n";
}

}  // namespace lockstep::launcher
