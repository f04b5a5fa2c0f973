#include "runtime/cache/misses.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

namespace lockstep::cache {
namespace {

constexpr size_t kMostSteps = 8;  // in a message

std::string other_steps(const std::vector<Manifest>& there, const device::ArtifactKey& key) {
  std::set<std::string> steps;
  for (const Manifest& manifest : there) {
    if (manifest.key.backend == key.backend && !manifest.key.step.empty()) steps.insert(manifest.key.step);
  }
  if (steps.empty()) return fmt::format("found no artifact of {}", key.backend);
  const size_t more = steps.size() > kMostSteps ? steps.size() - kMostSteps : 0;
  steps.erase(std::next(steps.begin(), static_cast<std::ptrdiff_t>(steps.size() - more)), steps.end());
  return fmt::format("found no artifact of {}, but of {}{}", key.step, fmt::join(steps, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace

const Manifest* nearest(const std::vector<Manifest>& there, const device::ArtifactKey& key) {
  const Manifest* best = nullptr;
  size_t fewest = 0;
  for (const Manifest& manifest : there) {
    if (manifest.key.backend != key.backend || manifest.key.step != key.step) continue;
    const size_t differing = differences(manifest.key, key).size();
    if (best == nullptr || std::pair(differing, -manifest.made_at) < std::pair(fewest, -best->made_at)) {
      best = &manifest;
      fewest = differing;
    }
  }
  return best;
}

std::string why_missing(const std::vector<Manifest>& there, const device::ArtifactKey& key) {
  const Manifest* near = nearest(there, key);
  if (near == nullptr) return other_steps(there, key);
  const std::vector<Difference> differ = differences(near->key, key);
  if (differ.empty()) return "found one that is damaged";
  return fmt::format("the nearest differs in {}", to_text(differ));
}

}  // namespace lockstep::cache
