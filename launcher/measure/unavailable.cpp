// The measuring commands in a build without them.
#include <fmt/format.h>

#include "launcher/measure/bench/bench.h"
#include "launcher/measure/doctor/doctor.h"
#include "launcher/measure/plan/plan.h"
#include "launcher/measure/suite/suite_tool.h"
#include "launcher/measure/sweep/sweep.h"

namespace lockstep::launcher {
namespace {

Error missing(const char* command) {
  return {
      ErrorKind::kUnsupported,
      fmt::format("[launcher] {}: this build lacks the measuring commands; configure with -DLOCKSTEP_WITH_MEASURE=ON",
                  command)};
}

}  // namespace

Result<void> bench(const BenchCommand&) { return missing("bench"); }
Result<void> exec_suite_tool(const BenchCommand&) { return missing("bench"); }
Result<void> sweep(const SweepCommand&) { return missing("sweep"); }
Result<void> plan(const PlanCommand&) { return missing("plan"); }
Result<int> doctor(const DoctorCommand&) { return missing("doctor"); }

}  // namespace lockstep::launcher
