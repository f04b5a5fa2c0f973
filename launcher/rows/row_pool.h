// The rows of a job on their way to several groups of ranks. Pure.
//
//   waiting ── take ─► out ── finish ─► done
//      ▲                │ └── hold ─► held ── finish ─► done
//      └── lose ────────┴──────────────┘             the group is lost: others answer its rows
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace lockstep::launcher {

class RowPool {
 public:
  explicit RowPool(std::vector<size_t> rows) : waiting_(rows.begin(), rows.end()) {}

  /// The next row for `group`; none: no row waits.
  std::optional<size_t> take(size_t group);
  void hold(size_t row);
  enum class Was { kOut, kHeld, kNeither };  // of a result that comes twice, the second is of neither
  Was finish(size_t row);
  /// The rows of `group` wait again, and come first. Returns the number of those that were not held.
  size_t lose(size_t group);

  /// Rows that `group` works on.
  size_t taken(size_t group) const;
  bool has_waiting() const { return !waiting_.empty(); }
  /// Whether no group will get a row any more, unless another one is lost.
  bool is_settled() const;

 private:
  struct Out {
    size_t group = 0;
    bool is_held = false;
  };

  std::deque<size_t> waiting_;
  std::map<size_t, Out> out_;  // by row
};

}  // namespace lockstep::launcher
