// Checksums of the ranks' parts of tensors, and their comparison.
//
//   rank 0   rows 0:5 of k_proj ─┐
//   rank 1   rows 4:9 of k_proj ─┴─cut_parts──► pieces 0:4 | 4:5       every piece that ranks share is equal on them,
//                                                      4:5 | 5:9       and all pieces together, each once, make the
//                                                      file
//
// Pure, except for the counting of sums while weights are read.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/weight_sums.h"
#include "runtime/graph/graph.h"

namespace lockstep::shards {

/// Rows and columns of a tensor that a rank reads for one slice of a weight. A vector has one column.
struct TensorPart {
  int32_t tensor = 0;  // its place in ShardGraphs::tensors
  int32_t slice = 0;   // the place of the slice among all of the rank's weights
  Range rows, columns;

  friend bool operator==(const TensorPart&, const TensorPart&) = default;
};

/// The parts of one rank, in the order of the graph's weights and their slices.
std::vector<TensorPart> parts_of(const graph::Graph& graph, const std::map<std::string, Shape>& tensors);

/// A text of `parts` for other ranks, and its inverse.
std::string to_bytes(std::span<const TensorPart> parts);
std::vector<TensorPart> parts_from_bytes(std::string_view bytes);

/// Cuts the rows of every rank's parts wherever a part of any rank begins or ends.
std::vector<std::vector<TensorPart>> cut_parts(const std::vector<std::vector<TensorPart>>& by_rank);

/// Whether another part of any rank has the rows of each of `rank`'s pieces, too, in some of its columns.
std::vector<bool> are_shared(const std::vector<std::vector<TensorPart>>& pieces, size_t rank);

/// The sum of one piece.
struct PieceSum {
  TensorSum sum;
  checkpoint::SummedKind kind = checkpoint::SummedKind::kFloat32;
  bool is_summed = false;

  friend bool operator==(const PieceSum&, const PieceSum&) = default;
};

std::string to_bytes(std::span<const PieceSum> sums);
std::vector<PieceSum> sums_from_bytes(std::string_view bytes);

/// Sums a rank's pieces while they are read. `add` is thread-safe.
class PartSums {
 public:
  /// Only the pieces that are `wanted` are summed.
  PartSums(std::vector<TensorPart> pieces, const std::vector<bool>& wanted);

  /// Whether any piece of a slice is wanted.
  bool wants(int32_t slice) const;
  /// Adds elements of a slice: `ranges` of its tensor, row-major.
  void add_elements(int32_t slice, std::span<const std::byte> elements, DType dtype, std::span<const Range> ranges);
  /// Adds rows of a matrix in codes, read as by `WeightSource::read_codes`.
  void add_codes(int32_t slice, const CodedRows& read, const WeightFormat& format, Range rows, Range columns);

  const std::vector<TensorPart>& pieces() const { return pieces_; }
  /// Call when all is read.
  std::vector<PieceSum> values() const;

 private:
  struct Counted {
    std::atomic<uint64_t> mixed = 0, plain = 0;
    std::atomic<checkpoint::SummedKind> kind = checkpoint::SummedKind::kFloat32;
    bool is_wanted = false;

    void add(const TensorSum& sum, checkpoint::SummedKind of);
  };
  template <typename Sum>
  void add(int32_t slice, Range rows, checkpoint::SummedKind kind, const Sum& sum);

  const std::vector<TensorPart> pieces_;
  std::deque<Counted> counted_;
  std::map<int32_t, Range> pieces_of_slice_;
};

/// The pieces of every rank with their sums, and the tensors that they are of.
struct SummedModel {
  const std::map<std::string, Shape>& tensors;
  const std::vector<std::vector<TensorPart>>& pieces;  // by rank
  std::vector<std::vector<PieceSum>> sums;             // likewise
};

/// What the comparison found.
struct SumComparison {
  int64_t tensors = 0;             // that ranks hold
  int64_t verified = 0;            // equal to the checkpoint's sums
  int64_t shared = 0;              // of the others: equal on at least two ranks, with all their parts
  int64_t alone = 0;               // of the others: some parts are on one rank alone
  std::string example;             // one of the last, empty if there is none
  std::optional<int32_t> suspect;  // the first tensor that is not equal

  friend bool operator==(const SumComparison&, const SumComparison&) = default;
};

/// Compares the ranks' pieces with each other and, if given, with `expected`.
SumComparison compare_sums(const SummedModel& model, const checkpoint::WeightSums* expected);

/// The sum of all of a tensor's pieces, each once.
struct WholeSum {
  TensorSum sum;
  bool has_mixed = true;  // no cut divides a lane

  /// Whether it equals the sum of the whole tensor.
  bool equals(const TensorSum& expected) const {
    return sum.plain == expected.plain && (!has_mixed || sum.mixed == expected.mixed);
  }
};

/// Of the pieces of `tensor` that were summed as `kind`; empty if they are not the whole tensor, or if ranks have
/// different columns of one row in common.
std::optional<WholeSum> whole_sum(const SummedModel& model, int32_t tensor, checkpoint::SummedKind kind);

/// A rank whose part of a tensor is not what the files have.
struct DifferingPart {
  int rank = 0;
  TensorPart part;
  TensorSum found, expected;

  friend bool operator==(const DifferingPart&, const DifferingPart&) = default;
};

/// The pieces of `tensor` that are not what the files have: those of a reader whose sums make the expected ones, else
/// those that most readers have. `again` has, by reader, the sums of every rank's pieces of the tensor, read again, in
/// the order of ranks and pieces. Empty if every rank has what all readers read.
std::vector<DifferingPart> differing_parts(const SummedModel& model, int32_t tensor,
                                           const std::vector<std::vector<PieceSum>>& again,
                                           const checkpoint::TensorSums* expected);

}  // namespace lockstep::shards
