#include "engine/inspect/measured_rates.h"

namespace lockstep::inspect {

Result<cost::Rates> measure(int threads, probe::Precision precision, std::optional<Bytes> per_thread,
                            const Clock& clock) {
  const probe::Options options{.threads = threads,
                               .per_thread = per_thread.value_or(probe::default_per_thread(threads))};
  LOCKSTEP_TRY(const auto prober, probe::Prober::create(options, clock));
  LOCKSTEP_TRY(const auto reads, prober->read({}));
  LOCKSTEP_TRY(std::vector<probe::Figure> dots, prober->multiply(precision, {}));
  if (dots.empty()) {
    LOCKSTEP_TRY(dots, prober->multiply(probe::Precision::kFloat32, {}));
  }
  return cost::Rates{probe::rate(probe::best_median(reads).sample), probe::rate(probe::best_median(dots).sample)};
}

}  // namespace lockstep::inspect
