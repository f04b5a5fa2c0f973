// How several workers load a rank's weights: each reads blocks of rows of its own share, in the order of the file, and
// places them.
//
//   weight   │ panel 0 │ panel 1 │ panel 2 │ panel 3 │ …       a panel: neighbouring rows that are packed together
//   worker 0  ── block ─── block ──┘         │
//   worker 1                        ── block ─┴─ …             a block: some panels, read at once
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/device/part.h"

namespace lockstep::device {

/// How one packed form of a weight divides its rows: every `rows_of_panel` rows of a part are packed separately.
struct PanelRows {
  int64_t rows_of_part = 0;
  int64_t parts = 1;
  int64_t rows_of_panel = 1;

  int64_t panels_of_part() const { return (rows_of_part + rows_of_panel - 1) / rows_of_panel; }
  int64_t panels() const { return parts * panels_of_part(); }
  Range rows_of(int64_t panel) const;
  /// The panel that holds `row`; panels are counted through all parts.
  int64_t panel_of(int64_t row) const {
    return row / rows_of_part * panels_of_part() + row % rows_of_part / rows_of_panel;
  }
  friend bool operator==(const PanelRows&, const PanelRows&) = default;
};

/// A weight, and the panels of its forms; without any it may be cut at every row. Borrows the value.
struct WeightRows {
  const graph::Value* value = nullptr;
  std::vector<PanelRows> panels = {};

  int64_t row_bytes() const;
};

/// The weights of a graph in the order of their file.
std::vector<const graph::Value*> weights_in_file_order(const graph::Graph& graph, const WeightReader& reader);

/// Rows of one weight that a worker reads together.
struct WeightBlock {
  size_t weight = 0;  // index
  Range rows;
};

/// The blocks of one worker, in order. All workers' blocks together contain each row of each weight once. A weight
/// whose forms have different panels is one block.
class WeightBlocks {
 public:
  WeightBlocks(std::span<const WeightRows> weights, const WeightReader& reader, Part part);

  /// Gets the next block; returns false after the last.
  bool next(WeightBlock& block);

 private:
  void open_weight();

  std::span<const WeightRows> weights_;
  const WeightReader& reader_;
  const Part part_;
  size_t weight_ = 0;
  int64_t unit_ = 0, end_unit_ = 0, units_at_once_ = 1;  // of the current weight
};

/// One load, shared by its workers. The first error ends the work of all.
class WeightLoading {
 public:
  /// `component` begins the messages of errors of this side ("runtime/backends/cpu").
  WeightLoading(std::span<const WeightRows> weights, const WeightReader& reader, std::string component)
      : weights_(weights), reader_(reader), component_(std::move(component)) {}

  /// One worker's share: calls `take`, which reads the block's rows and places them, for each block, and announces
  /// later ones to the reader. Never throws, because the others wait for it. @blocking (disk)
  void work(Part part, const std::function<Result<void>(const WeightBlock&)>& take);
  /// Notes an error of a worker outside of its blocks.
  void fail(Error error);

  /// After all workers have returned.
  Result<void> result() const;

 private:
  Result<void> take_share(Part part, const std::function<Result<void>(const WeightBlock&)>& take);

  const std::span<const WeightRows> weights_;
  const WeightReader& reader_;
  const std::string component_;
  std::atomic<bool> has_failed_ = false;
  std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace lockstep::device
