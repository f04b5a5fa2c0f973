// Parallel reading and packing of weights by all workers of a rank. A worker reads the panels of its own share through
// a small buffer that stays in its cache, and is the first to touch the packed memory:
//
//   file ──read──► buffer of a few panels ──pack──► panels of worker 0 │ panels of worker 1 │ …
//                          (and copied, if a graph also reads the weight row by row)
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/backends/cpu/coded_packing.h"
#include "runtime/backends/cpu/packing.h"
#include "runtime/backends/cpu/thread_team.h"
#include "runtime/device/weight_blocks.h"

namespace lockstep::cpu {

/// One packed form of a weight.
struct PanelForm {
  device::PanelRows rows;
  /// Packs one panel; `src` is its first row. Thread-safe.
  std::function<void(int64_t panel, const std::byte* src)> pack;
};

/// Panels of floating-point numbers; `dst` is the whole packed matrix.
PanelForm panel_form(const Packing& packing, std::byte* dst);

/// The same of a weight in codes.
struct CodedForm {
  device::PanelRows rows;
  ColumnGroups groups;
  /// `src` begins with the panel's first row. Thread-safe.
  std::function<void(int64_t panel, const CodedRows& src)> pack;
};

/// Panels of codes; `dst` as above.
CodedForm coded_form(const CodedPacking& packing, std::byte* dst);

/// Quantises `src`, row-major elements of a weight with a format that `quantise` supports, and packs it.
void pack_quantised(const graph::Value& weight, const CodedForm& form, std::span<const std::byte> src);

/// A weight and its destination memory: as elements, or in codes, of which all forms have the same groups. Borrows
/// everything.
struct WeightPlace {
  const graph::Value* value = nullptr;
  std::byte* rows = nullptr;  // row-major; null: not needed
  std::vector<PanelForm> panels = {};
  std::vector<CodedForm> coded = {};
};

/// Reads and packs every place with all workers of `team` (the calling thread is one). Fails with the first error of
/// `reader`; the destination memory is then invalid. @blocking (disk)
Result<void> load_weights(std::span<const WeightPlace> places, const device::WeightReader& reader, ThreadTeam& team);

}  // namespace lockstep::cpu
