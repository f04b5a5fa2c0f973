#include "launcher/serve/door/request_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::serve {
namespace {

using Json = nlohmann::ordered_json;

/// "2026-01-31T12:00:00.250Z"
std::string utc(std::chrono::system_clock::time_point time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::milliseconds>(time - day));
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

/// Seconds, to the millisecond.
double rounded_seconds(Duration duration) { return std::round(to_seconds(duration) * 1e3) / 1e3; }

bool is_plain(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '='; });
}

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string text_of(const Json& value) {
  if (value.is_string() && is_plain(value.get_ref<const std::string&>())) return value.get<std::string>();
  return dumped(value);
}

}  // namespace

LogFormat log_format(std::string_view name) { return name == "json" ? LogFormat::kJson : LogFormat::kText; }

std::string message_line(LogFormat format, LogLevel level, std::string_view message,
                         std::chrono::system_clock::time_point time) {
  const std::string_view component = message.starts_with('[') ? "" : "[serve] ";  // an error names its own
  if (format == LogFormat::kText) return fmt::format("{}{}", component, message);
  return dumped({{"time", utc(time)}, {"event", "message"}, {"level", to_string(level)}, {"message", message}});
}

struct RequestLog::Line {
  Json fields = Json::object();

  /// Of every answer.
  Line(std::string_view id, std::string_view client, std::string_view endpoint, int status) {
    add_text("id", id);
    add_text("client", client);
    add_text("endpoint", endpoint);
    add("status", status);
  }

  void add(const char* name, Json value) { fields[name] = std::move(value); }
  /// Adds nothing for an empty text.
  void add_text(const char* name, std::string_view text) {
    if (!text.empty()) add(name, std::string(text));
  }
};

RequestLog::RequestLog(LogFormat format, Sink sink, WallClock wall_clock)
    : format_(format),
      sink_(std::move(sink)),
      wall_clock_(wall_clock ? std::move(wall_clock) : [] { return std::chrono::system_clock::now(); }) {}

RequestLog::~RequestLog() = default;

void RequestLog::write(Line line) {
  const std::string time = utc(wall_clock_());
  if (format_ == LogFormat::kJson) {
    Json whole = {{"time", time}, {"event", "request"}};
    whole.update(line.fields);
    sink_(dumped(whole));
    return;
  }
  std::string text = "[serve] " + time + " request";
  for (const auto& [name, value] : line.fields.items()) text += fmt::format(" {}={}", name, text_of(value));
  sink_(text);
}

void RequestLog::refused(const HttpRefused& request) {
  Line line(request.id, request.peer, {}, request.status);
  line.add_text("error", request.code);
  write(std::move(line));
}

void RequestLog::on_started(const ApiRequest&) {}

void RequestLog::on_first_token(const ApiRequest& request, Duration waited) {
  first_tokens_.try_emplace(request.number, waited);
}

void RequestLog::on_tokens(const ApiRequest&, size_t, Duration) {}

void RequestLog::on_ended(const ApiRequest& request, const ApiEnd& end) {
  Line line(request.id, request.peer, request.endpoint, end.status);
  line.add_text("outcome", end.outcome);
  line.add("stream", request.stream);
  line.add("choices", request.choices);
  line.add("prompt_tokens", request.prompt_tokens);
  line.add("cached_tokens", end.cached_tokens);
  line.add("new_tokens", end.new_tokens);
  if (end.waited) line.add("queue_s", rounded_seconds(*end.waited));
  if (const auto first = first_tokens_.extract(request.number)) line.add("ttft_s", rounded_seconds(first.mapped()));
  line.add("duration_s", rounded_seconds(end.duration));
  // The message of a refusal may quote the request.
  if (end.status >= 500) line.add_text("error", end.error);
  write(std::move(line));
}

void RequestLog::on_answered(const ApiRequest& request, int status) {
  write({request.id, request.peer, request.endpoint, status});
}

}  // namespace lockstep::serve
