// Parallel reading and packing of weights by all workers of a rank. A worker reads the panels of its own share through
// a small buffer that stays in its cache, and is the first to touch the packed memory:
//
//   file ──read──► buffer of a few panels ──pack──► panels of worker 0 │ panels of worker 1 │ …
//                          (and copied, if a graph also reads the weight row by row)
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/backends/cpu/int8_packing.h"
#include "runtime/backends/cpu/packing.h"
#include "runtime/backends/cpu/thread_team.h"
#include "runtime/device/backend.h"

namespace lockstep::cpu {

/// One packed form of a weight: every `kPanel` rows of a part are packed separately.
struct PanelForm {
  int64_t rows_of_part = 0;
  int64_t parts = 1;
  /// Packs one panel, counted through all parts; `src` is its first row. Thread-safe.
  std::function<void(int64_t panel, const std::byte* src)> pack;

  int64_t panels_of_part() const { return (rows_of_part + kPanel - 1) / kPanel; }
  int64_t panels() const { return parts * panels_of_part(); }
  Range rows_of(int64_t panel) const;
};

/// Panels of floating-point numbers; `dst` is the whole packed matrix.
PanelForm panel_form(const Packing& packing, std::byte* dst);

/// Panels of 8-bit integers; `dst` as above. Borrows `kernels`.
PanelForm int8_panel_form(const Kernels& kernels, const Int8Packing& packing, std::byte* dst);

/// A weight and its destination memory. Borrows everything.
struct WeightPlace {
  const graph::Value* value = nullptr;
  std::byte* rows = nullptr;  // row-major; null: not needed
  std::vector<PanelForm> panels = {};

  int64_t row_bytes() const;
};

/// Rows of one weight that a worker reads together.
struct WeightBlock {
  size_t weight = 0;  // index of its place
  Range rows;
};

/// The blocks of one worker, in order. All workers' blocks together contain each row of each weight once.
class WeightBlocks {
 public:
  WeightBlocks(std::span<const WeightPlace> places, const device::WeightReader& reader, Part part);

  /// Gets the next block; returns false after the last.
  bool next(WeightBlock& block);

 private:
  void open_weight();

  std::span<const WeightPlace> places_;
  const device::WeightReader& reader_;
  const Part part_;
  size_t weight_ = 0;
  int64_t unit_ = 0, end_unit_ = 0, units_at_once_ = 1;  // of the current weight
};

/// Reads and packs every place with all workers of `team` (the calling thread is one). Fails with the first error of
/// `reader`; the destination memory is then invalid. @blocking (disk)
Result<void> load_weights(std::span<const WeightPlace> places, const device::WeightReader& reader, ThreadTeam& team);

}  // namespace lockstep::cpu
