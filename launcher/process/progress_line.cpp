#include "launcher/process/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "launcher/process/own_environment.h"
#include "runtime/core/ids.h"

namespace lockstep::launcher {
namespace {

constexpr std::string_view kRows = "rows";
constexpr std::string_view kErase = "\r\x1b[K";
constexpr Duration kBetweenDrawings = std::chrono::milliseconds(50);
constexpr int kBarWidth = 10;

int stderr_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(int64_t done, int64_t total) {
  const auto filled = static_cast<size_t>(kBarWidth * done / total);
  return fmt::format("[{:<{}}] {:>3} %", std::string(filled, '#'), kBarWidth, 100 * done / total);
}

}  // namespace

Screen stderr_screen(ShowProgress when) {
  const bool is_terminal = isatty(STDERR_FILENO) == 1 && own_variable("TERM").value_or("dumb") != "dumb";
  if (when == ShowProgress::kNever || (when == ShowProgress::kOnTerminal && !is_terminal)) return {};
  return {.write =
              [](std::string_view text) {
                std::fwrite(text.data(), 1, text.size(), stderr);
                std::fflush(stderr);
              },
          .columns = stderr_columns};
}

void ProgressLine::show(const Progress& progress) {
  if (progress.work == Progress::Work::kLoading) {
    return update({.name = "load",
                   .shown_after = std::chrono::milliseconds(300),
                   .done = progress.done,
                   .total = progress.total,
                   .amount = fmt::format("{} of {}", to_string(Bytes(progress.done)), to_string(Bytes(progress.total))),
                   .produced = progress.done,
                   .unit = {}});
  }
  update({.name = "prompts",
          .shown_after = std::chrono::seconds(1),
          .done = progress.done,
          .total = progress.total,
          .amount = fmt::format("{} of {} tokens", progress.done, progress.total),
          .produced = progress.done,
          .unit = "tokens"});
}

void ProgressLine::show_rows(uint64_t done, uint64_t total, int64_t tokens) {
  update({.name = kRows,
          .done = static_cast<int64_t>(done),
          .total = static_cast<int64_t>(total),
          .amount = fmt::format("{} of {} rows", done, total),
          .produced = tokens,
          .unit = "tokens"});
}

void ProgressLine::update(const Work& work) {
  std::lock_guard lock(mutex_);
  if (!is_shown() || is_closed_) return;
  if (begin_ && begin_->name == kRows && work.name != kRows) return;
  if (work.done >= work.total) {
    erase();
    begin_.reset();
    return;
  }
  const TimePoint now = clock_.now();
  if (!begin_ || begin_->name != work.name) {
    begin_ = Begin{.name = work.name, .time = now, .done = work.done, .produced = work.produced, .last = work.done};
  }
  if (work.done != std::exchange(begin_->last, work.done)) begin_->seconds = to_seconds(now - begin_->time);
  if (now - begin_->time < work.shown_after || (is_drawn_ && now - drawn_ < kBetweenDrawings)) return;
  draw(text_of(work));
  drawn_ = now;
}

/// The rate is that of the last change; otherwise it would fall during long steps.
std::string ProgressLine::text_of(const Work& work) const {
  const double seconds = begin_->seconds;
  std::string text = fmt::format("{:<7} {}  {}", work.name, bar(work.done, work.total), work.amount);
  const int64_t produced = work.produced - begin_->produced;
  if (seconds > 0 && produced > 0) {
    const double rate = static_cast<double>(produced) / seconds;
    text += work.unit.empty() ? fmt::format(", {}/s", to_string(Bytes(static_cast<int64_t>(rate))))
                              : fmt::format(", {:.{}f} {}/s", rate, rate < 10 ? 1 : 0, work.unit);
  }
  if (const int64_t done = work.done - begin_->done; seconds > 0 && done > 0) {
    const double left = seconds * static_cast<double>(work.total - work.done) / static_cast<double>(done);
    text += left < 120 ? fmt::format(", {:.0f} s left", left) : fmt::format(", {:.0f} min left", left / 60);
  }
  return text;
}

void ProgressLine::draw(std::string text) {
  const int columns = screen_.columns();
  text.resize(std::min(text.size(), static_cast<size_t>(std::max(columns - 1, 0))));
  screen_.write(fmt::format("{}{}", kErase, text));
  is_drawn_ = true;
}

void ProgressLine::erase() {
  if (is_drawn_) screen_.write(kErase);
  is_drawn_ = false;
}

void ProgressLine::wipe() {
  std::lock_guard lock(mutex_);
  erase();
}

void ProgressLine::close() {
  std::lock_guard lock(mutex_);
  erase();
  is_closed_ = true;
}

Log::Sink ProgressLine::before(Log::Sink sink) {
  if (!is_shown()) return sink;
  return [this, sink = std::move(sink)](LogLevel level, std::string_view line) {
    std::lock_guard lock(mutex_);  // nothing is drawn while the line is written
    erase();
    sink(level, line);
  };
}

}  // namespace lockstep::launcher
