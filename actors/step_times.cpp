#include "actors/step_times.h"

#include <algorithm>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {
namespace {

constexpr double kDecodesOfBudget = 4.0;
constexpr double kLeastSpan = 0.02;    // seconds: a schedule costs the coordinator up to 0.3 ms
constexpr double kSmoothing = 0.25;    // weight of a new measurement
constexpr double kLongStep = 0.002;    // seconds: an exchange of the ranks costs a hundredth of it at most
constexpr double kAsFast = 1.1;        // a step that a backend does not shorten for fewer rows
constexpr int64_t kFirstRows = 32;     // of a step beside decodes, at most, before measurements
constexpr int32_t kFirstDecodes = 4;   // of a schedule, at most, likewise
constexpr int32_t kFirstPrefills = 1;  // likewise

double smoothed(std::optional<double> old, double now) { return old ? *old + kSmoothing * (now - *old) : now; }

/// The sizes of `chunks` that a score step can have.
std::vector<int64_t> score_sizes(std::vector<int64_t> chunks, int64_t rows) {
  std::erase_if(chunks, [&](int64_t size) { return size >= rows; });
  chunks.push_back(std::max<int64_t>(rows, 1));
  return chunks;
}

}  // namespace

StepTimes::StepTimes(std::vector<int64_t> sizes) : sizes_(std::move(sizes)), times_(sizes_.size()) {
  LOCKSTEP_CHECK(!sizes_.empty() && std::ranges::is_sorted(sizes_), sizes_.size());
}

void StepTimes::note(int64_t rows, Duration time) {
  const auto found = std::ranges::lower_bound(sizes_, rows);
  const auto size = static_cast<size_t>(std::min(found, sizes_.end() - 1) - sizes_.begin());
  const std::optional<double> old = times_[size];
  times_[size] = smoothed(old, std::max(to_seconds(time), 1e-9));
  if (!old) return;
  const double change = *times_[size] / *old;
  for (size_t other = 0; other < times_.size(); ++other) {
    if (other != size && times_[other]) *times_[other] *= change;
  }
}

bool StepTimes::is_measured() const {
  return std::ranges::any_of(times_, [](const auto& time) { return time.has_value(); });
}

double StepTimes::estimate(size_t size, double floor) const {
  struct Point {
    double rows, seconds;
  };
  // The nearest measured sizes on both sides; below the smallest, a step of one row, which is no slower than any.
  std::vector<Point> points = {{1.0, floor}};
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (times_[i]) points.push_back({static_cast<double>(sizes_[i]), *times_[i]});
  }
  points.front().seconds = std::min(floor, points[1].seconds);
  const auto rows = static_cast<double>(sizes_[size]);
  const auto above = std::ranges::find_if(points, [&](const Point& point) { return point.rows >= rows; });
  const auto right = above == points.begin() ? above + 1 : std::min(above, points.end() - 1);
  const Point &a = *(right - 1), &b = *right;
  if (b.rows <= a.rows) return b.seconds;
  return b.seconds + std::max(0.0, (b.seconds - a.seconds) / (b.rows - a.rows)) * (rows - b.rows);
}

ScheduleTiming::ScheduleTiming(const PlannerLimits& limits, Duration budget, int32_t in_flight)
    : wanted_(to_seconds(budget)),
      in_flight_(in_flight),
      most_decodes_(limits.decode_steps),
      most_prefills_(limits.prefill_steps),
      prefill_(limits.chunk_sizes.empty() ? std::vector<int64_t>{limits.chunk} : limits.chunk_sizes),
      score_(score_sizes(limits.chunk_sizes, limits.score_rows)) {}

void ScheduleTiming::note_decode(Duration time) { decode_ = smoothed(decode_, std::max(to_seconds(time), 1e-9)); }

std::optional<double> ScheduleTiming::budget() const {
  if (wanted_ > 0.0) return wanted_;
  return decode_ ? std::optional(kDecodesOfBudget * *decode_) : std::nullopt;
}

/// The largest size within the budget, or about as fast as the smallest one; before measurements a small one.
int64_t ScheduleTiming::rows_within_budget(const StepTimes& times) const {
  const std::vector<int64_t>& sizes = times.sizes();
  const double floor = decode_.value_or(0.0);
  const bool is_known = times.is_measured() && budget();
  const double most = is_known ? std::max(*budget(), kAsFast * times.estimate(0, floor)) : 0.0;
  int64_t rows = sizes.front();
  for (size_t size = 1; size < sizes.size(); ++size) {
    const bool fits = is_known ? times.estimate(size, floor) <= most : sizes[size] <= kFirstRows;
    if (fits) rows = sizes[size];
  }
  return rows;
}

/// Of the largest prefill or score step.
std::optional<double> ScheduleTiming::longest_step() const {
  std::optional<double> longest;
  for (const StepTimes* times : {&prefill_, &score_}) {
    if (!times->is_measured()) continue;
    longest = std::max(longest.value_or(0.0), times->estimate(times->sizes().size() - 1, decode_.value_or(0.0)));
  }
  return longest;
}

/// As many steps as take a schedule's share of the budget: at least one.
int32_t ScheduleTiming::steps_of_schedule(std::optional<double> step, int32_t first, int32_t most) const {
  if (!step || !budget()) return std::min(first, most);
  const double share = std::max(*budget(), kLeastSpan) / in_flight_;
  return static_cast<int32_t>(std::clamp(share / *step, 1.0, static_cast<double>(most)));
}

ScheduleBounds ScheduleTiming::bounds() const {
  return {.prefill_rows = rows_within_budget(prefill_),
          .score_rows = rows_within_budget(score_),
          .decode_steps = steps_of_schedule(decode_, kFirstDecodes, most_decodes_),
          .prefill_steps = steps_of_schedule(longest_step(), kFirstPrefills, most_prefills_),
          .agreement = decode_ && *decode_ >= kLongStep ? Agreement::kAfterEachStep : Agreement::kWithNextStep};
}

}  // namespace lockstep::actors
