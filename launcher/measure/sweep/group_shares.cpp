#include "launcher/measure/sweep/group_shares.h"

#include <fmt/format.h>

namespace lockstep::launcher {

Result<std::vector<GroupShare>> share_out(const PointShape& shape, std::span<const std::vector<int>> cores) {
  const auto replicas = static_cast<size_t>(shape.replicas);
  if (shape.batch % shape.replicas != 0) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[launcher/sweep] cannot share out the batch: found {} sequences for {} replicas, expected a "
                    "multiple; change --batch-size or --replicas",
                    shape.batch, replicas)};
  }
  if (replicas == 1) return std::vector<GroupShare>{{.batch = shape.batch, .hardware_threads = {}}};
  if (cores.size() < replicas) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[launcher/sweep] cannot share out the cores: found {} for {} replicas, expected one for "
                             "each; lower --replicas",
                             cores.size(), replicas)};
  }
  std::vector<GroupShare> shares(replicas, GroupShare{.batch = shape.batch / shape.replicas, .hardware_threads = {}});
  const size_t each = cores.size() / replicas;
  for (size_t core = 0; core < each * replicas; ++core) {
    std::vector<int>& threads = shares[core / each].hardware_threads;
    threads.insert(threads.end(), cores[core].begin(), cores[core].end());
  }
  return shares;
}

}  // namespace lockstep::launcher
