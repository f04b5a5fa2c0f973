#include "launcher/measure/bench/device_prober.h"

#include <numeric>
#include <utility>

namespace lockstep::launcher {
namespace {

using probe::Figure;
using probe::Meet;

class DeviceProber final : public probe::Prober {
 public:
  DeviceProber(std::unique_ptr<device::LimitsProbe> probe, const Clock& clock)
      : probe_(std::move(probe)), clock_(clock) {}

  Result<std::vector<Figure>> read(const Meet& meet) override {
    std::vector<size_t> all(probe_->readers().size());
    std::iota(all.begin(), all.end(), size_t{0});
    return read_again(all, 1, meet);
  }

  Result<std::vector<Figure>> read_again(std::span<const size_t> kernels, int passes, const Meet& meet) override {
    std::vector<Figure> figures;
    for (const size_t kernel : kernels) {
      for (int pass = 0; pass < passes; ++pass) {
        LOCKSTEP_TRY(figures.emplace_back(),
                     figure(probe_->readers()[kernel], meet, &device::LimitsProbe::read, kernel));
      }
    }
    return figures;
  }

  Result<std::vector<Figure>> multiply(probe::Precision precision, const Meet& meet) override {
    std::vector<Figure> figures;
    for (size_t kernel = 0; kernel < probe_->multipliers().size(); ++kernel) {
      for (int pass = 0; pass < probe::kDotPasses; ++pass) {
        LOCKSTEP_TRY(figures.emplace_back(), multiply_again(precision, kernel, meet));
      }
    }
    return figures;
  }

  Result<Figure> multiply_again(probe::Precision, size_t kernel, const Meet& meet) override {
    return figure(probe_->multipliers()[kernel], meet, &device::LimitsProbe::multiply, kernel);
  }

 private:
  using Pass = Result<device::ProbePass> (device::LimitsProbe::*)(size_t kernel);

  Result<Figure> figure(const std::string& name, const Meet& meet, Pass pass, size_t kernel) {
    if (meet) LOCKSTEP_TRY_VOID(meet());
    const TimePoint begin = clock_.now();
    LOCKSTEP_TRY(const device::ProbePass done, (probe_.get()->*pass)(kernel));
    return Figure{name, {begin, begin + done.time, done.amount}};
  }

  const std::unique_ptr<device::LimitsProbe> probe_;
  const Clock& clock_;
};

}  // namespace

std::unique_ptr<probe::Prober> make_device_prober(std::unique_ptr<device::LimitsProbe> probe, const Clock& clock) {
  return std::make_unique<DeviceProber>(std::move(probe), clock);
}

}  // namespace lockstep::launcher
