// Notes and facts of a job, independent of the wire format.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/journal/row_record.h"

namespace lockstep::journal {

std::optional<std::string> JobDescription::note(std::string_view name) const {
  const auto found = std::ranges::find(notes, name, &Fact::name);
  return found == notes.end() ? std::nullopt : std::optional(found->value);
}

Result<void> check_same_job(const JobDescription& recorded, const JobDescription& asked) {
  const auto differs = [](std::string_view name, std::string_view found, std::string_view expected) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/journal] the journal is of another job: found {} {} now, expected {} as when it "
                             "began; start with the options, model and jobs file of then, or begin a new journal in "
                             "another folder",
                             name, found, expected)};
  };
  if (recorded.rows != asked.rows) {
    return differs("rows", fmt::format("{}", asked.rows), fmt::format("{}", recorded.rows));
  }
  for (const Fact& fact : asked.facts) {
    const auto then = std::ranges::find(recorded.facts, fact.name, &Fact::name);
    if (then == recorded.facts.end()) return differs(fact.name, fact.value, "none");
    if (then->value != fact.value) return differs(fact.name, fact.value, then->value);
  }
  for (const Fact& fact : recorded.facts) {
    if (std::ranges::find(asked.facts, fact.name, &Fact::name) == asked.facts.end()) {
      return differs(fact.name, "none", fact.value);
    }
  }
  return ok();
}

}  // namespace lockstep::journal
