// In a build without measurements.
#include "engine/inspect/measured_rates.h"

namespace lockstep::inspect {

Result<cost::Rates> measure(int /*threads*/, probe::Precision /*precision*/, std::optional<Bytes> /*per_thread*/,
                            const Clock& /*clock*/) {
  return Error{ErrorKind::kUnsupported,
               "[engine/inspect] cannot measure this machine: found a build without measurements, expected one with; "
               "configure with -DLOCKSTEP_WITH_MEASURE=ON, or describe the machine"};
}

}  // namespace lockstep::inspect
