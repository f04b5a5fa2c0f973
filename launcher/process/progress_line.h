// A progress line at the foot of a terminal, erased before any other output.
//
//   load    [####      ]  41 %  1.11 GiB of 2.70 GiB, 812.00 MiB/s, 2 s left
//   prompts [##        ]  20 %  812 of 4060 tokens, 110 tokens/s, 30 s left
//   rows    [#         ]  12 %  120 of 1000 rows, 85 tokens/s, 96 s left
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/process/run_options.h"
#include "lockstep/group.h"
#include "runtime/core/clock.h"
#include "runtime/core/log.h"

namespace lockstep::launcher {

/// The terminal of the line.
struct Screen {
  std::function<void(std::string_view)> write;  // empty: nowhere
  std::function<int()> columns;
};

/// stderr, or a screen that draws nothing, by `when`.
Screen stderr_screen(ShowProgress when);

/// Thread-safe. Other writers to the terminal wipe the line first, or close it.
class ProgressLine {
 public:
  ProgressLine(Screen screen, const Clock& clock) : screen_(std::move(screen)), clock_(clock) {}
  ~ProgressLine() { close(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool is_shown() const { return static_cast<bool>(screen_.write); }

  /// Work of the engine: loading after 0.3 s, prompts after 1 s, neither while rows are shown.
  void show(const Progress& progress);
  /// Finished rows of a batch job, and their tokens.
  void show_rows(uint64_t done, uint64_t total, int64_t tokens);

  /// Erases the line until the next update.
  void wipe();
  /// Erases the line and ignores later updates.
  void close();

  /// A sink that erases the line before it passes each line on to `sink`.
  Log::Sink before(Log::Sink sink);

 private:
  struct Work {
    std::string_view name;
    Duration shown_after = Duration::zero();
    int64_t done = 0, total = 1;
    std::string amount;     // "812 of 4060 tokens"
    int64_t produced = 0;   // the count of the rate
    std::string_view unit;  // of the rate: "tokens"; empty: bytes
  };
  struct Begin {
    std::string_view name;
    TimePoint time;
    int64_t done = 0, produced = 0;
    int64_t last = 0;      // `done` of the last update
    double seconds = 0.0;  // from `time` until `last` changed
  };

  void update(const Work& work);
  std::string text_of(const Work& work) const;
  void draw(std::string text);
  void erase();

  const Screen screen_;
  const Clock& clock_;
  std::mutex mutex_;            // guards the fields below
  std::optional<Begin> begin_;  // of the work under way
  TimePoint drawn_;
  bool is_drawn_ = false;
  bool is_closed_ = false;
};

}  // namespace lockstep::launcher
