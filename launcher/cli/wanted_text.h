// A flag for printing a text instead of a run, such as --option-table.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace lockstep::launcher {

/// The flag throws it through CLI11 before required options are checked; `parse_command_line` catches it.
class WantedText : public CLI::Success {
 public:
  explicit WantedText(std::string text)
      : CLI::Success("WantedText", "a text was asked for", CLI::ExitCodes::Success), text_(std::move(text)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Adds `flag`, which prints what `make` returns.
inline void add_text_flag(CLI::App& app, const std::string& flag, std::string (*make)(), const std::string& help) {
  app.add_flag_callback(
         flag, [make] { throw WantedText(make()); }, help)
      ->trigger_on_parse();
}

}  // namespace lockstep::launcher
