#include "actors/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

namespace lockstep::actors {

std::string to_string(const Schedule& schedule) {
  std::string text = fmt::format("schedule {}:", schedule.number);
  auto out = std::back_inserter(text);
  const char* separator = " ";
  const auto part = [&](const char* name) {
    fmt::format_to(out, "{}{}", separator, name);
    separator = "; ";
  };
  if (!schedule.closed.empty()) {
    part("close");
    for (const SlotId slot : schedule.closed) fmt::format_to(out, " {}", slot);
  }
  if (!schedule.opened.empty()) {
    part("open");
    for (const OpenedSlot& opened : schedule.opened) {
      fmt::format_to(out, " {}", opened.slot);
      for (const SavedSlot& saved : opened.saved) fmt::format_to(out, " (saved to {})", saved.to);
      if (opened.prefix.ids.empty()) continue;
      fmt::format_to(out, " ({} tokens of {})", opened.prefix.ids.size(), opened.prefix.source);
    }
  }
  if (!schedule.host_chosen.empty()) {
    part("host chooses for");
    for (const HostSlots& host : schedule.host_chosen) fmt::format_to(out, " {}", host.request);
  }
  const auto rows_of_steps = [&](const char* name, const auto& steps) {
    if (steps.empty()) return;
    part(name);
    const char* plus = " ";
    for (const auto& rows : steps) {
      fmt::format_to(out, "{}{}", plus, rows.ids.size());
      plus = "+";
    }
    text += " rows";
  };
  rows_of_steps("prefill", schedule.prefills);
  rows_of_steps("score", schedule.scores);
  if (schedule.decode_steps > 0) {
    part("decode");
    fmt::format_to(out, " {}", schedule.decode_steps);
  }
  if (schedule.last == Last::kYes) part("last");
  return text;
}

std::string to_string(const StepResult& result) {
  return fmt::format("schedule {} step {}: tokens {}", result.schedule, result.step, fmt::join(result.tokens, " "));
}

}  // namespace lockstep::actors
