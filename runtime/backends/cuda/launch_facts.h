// What the launches of a step touch, found in their parameters: no kernel is described a second time.
//
//   plan_step(graph, layout, marked_bases())     addresses that say which memory they are of
//   ───────────────────────────────────────►     a word of a launch's parameters is a weight, a cache, an activation …
#pragma once

#include <string>
#include <vector>

#include "runtime/backends/cuda/step_plan.h"

namespace lockstep::cuda {

/// Memory that begins where no number of a launch's parameters is.
Bases marked_bases();

/// Bytes of one launch. Activations are a node's operands, which its first launch reads, and its result, which its last
/// one writes.
struct LaunchBytes {
  double weights = 0;      // read: each weight once; of tables the rows, of experts those chosen if all are alike
  double cache = 0;        // keys and values, read or appended
  double activations = 0;  // read
  double written = 0;      // activations

  LaunchBytes& operator+=(const LaunchBytes& other);
};

/// Sequences and tokens in the caches, for attention.
struct CachesInUse {
  int64_t sequences = 1;
  int64_t tokens = 1;
};
/// All slots, of a prefill or score step one, each full.
CachesInUse full_caches(const graph::Graph& graph, const StoreLayout& layout);

/// By launch of `plan`, which has marked bases.
std::vector<LaunchBytes> bytes_of_launches(const graph::Graph& graph, const StoreLayout& layout, const StepPlan& plan,
                                           const CachesInUse& caches);

/// The parameters by words of eight bytes, addresses by what is there: "[w layers.0.q_proj, work+512, 64 1]".
std::string parameters_of(const Launch& launch, const StoreLayout& layout);

}  // namespace lockstep::cuda
