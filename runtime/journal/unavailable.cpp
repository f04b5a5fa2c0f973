// The journal of a build without Cap'n Proto: opening fails.
#include "runtime/journal/journal.h"

namespace lockstep::journal {
namespace {

Error missing() {
  return {
      ErrorKind::kUnsupported,
      "[runtime/journal] this build lacks journals of batch jobs; configure with -DLOCKSTEP_WITH_JOURNAL=ON, or omit "
      "--journal"};
}

}  // namespace

Result<void> available() { return missing(); }

Result<std::unique_ptr<Journal>> Journal::open(const std::filesystem::path&) { return missing(); }
Result<Progress> read_progress(const std::filesystem::path&) { return missing(); }

// Requires an open journal.
Result<void> Journal::begin(const JobDescription&) { return missing(); }
Result<void> Journal::append(std::span<const RowResult>) { return missing(); }
Result<RowResult> Journal::read(uint64_t) const { return missing(); }

}  // namespace lockstep::journal
