// Parameters of the kernels that exchange between ranks (parameters.h).
#pragma once

#include <cstdint>

#include "runtime/backends/cuda/kernels/row_parameters.h"

namespace lockstep::cuda {

constexpr int kMostRanks = 16;
constexpr int kMostRoots = 64;

/// A point that all ranks pass together, block by block. All blocks have to be resident.
struct Meeting {
  uint32_t*
      flags[kMostRanks];  // of each rank, as this device sees them: [ranks, kMostBlocks], zero before the first step
  const uint32_t* step;   // counts steps, from 0; the same on every rank
  const uint32_t* abort;  // not 0: give up
  uint32_t* missing;      // becomes 1 + the rank that did not come
  uint64_t patience;      // nanoseconds until then
  int32_t ranks;
  int32_t rank;
  uint32_t meetings;  // of a step
  uint32_t index;     // of this one
};
constexpr int kMostBlocks = 64;
constexpr int kMeetThreads = 256;

/// sum_of_ranks: the tree sum over the roots of all ranks, rounded, plus a residual; sum_of_roots: without meeting
/// others. Roots are memory that peers see; they alternate between two halves, so a rank may write the next ones while
/// others still read.
struct SumParameters {
  Meeting meeting;
  const float* roots[kMostRanks];  // of each rank: f32 [its roots, rows, columns]
  const int32_t* plan;             // TreeFinish: [ranks + 1] first roots, then pairs (dst, src)
  const void* residual;            // of y's type [rows, columns], dense; may be null
  void* y;                         // dense
  RowCount rows;
  int32_t columns;
  int32_t additions;  // pairs in the plan
  int32_t result;     // the root that holds the sum at the end
  int32_t y_type;     // ElementType
  int32_t is_even;    // one root a rank, added along the even tree; columns are a multiple of 4
};
enum ElementType : int32_t { kF32, kBf16, kF16 };

/// sum_in_slices: the same, in two meetings. A rank finishes its slice of the elements for all of them:
///
///   roots ─meeting─► slice r of rank r, from everybody's roots ─► into the slices of every rank ─meeting─► y
///
/// Slices are memory that peers see, in the half of the second meeting.
struct SlicedSumParameters {
  SumParameters sum;
  void* slices[kMostRanks];  // of each rank: of y's type [rows, columns]
};

/// A range of columns that a gather copies from memory that peers see. Offsets and strides are elements.
struct GatherPiece {
  int64_t from;  // of row 0 in the area of `rank`
  int64_t from_stride;
  int64_t to;  // of row 0 in y
  int64_t to_stride;
  int32_t rank;  // that shows it
  int32_t columns;
};

/// gather_2, gather_4: shows own columns to the other ranks, and copies theirs. A block moves the same rows on every
/// rank.
struct GatherParameters {
  Meeting meeting;
  void* areas[kMostRanks];    // of each rank, seen by all
  const void* x;              // [rows, own columns], copied to the own area first; may be null
  void* y;                    // may be null, without pieces
  const GatherPiece* pieces;  // what y is made of
  int64_t x_stride;
  RowCount rows;
  int32_t own;  // columns of x
  int32_t count;
};

/// rows_of_owners_2, rows_of_owners_4: each row from the rank that holds its slot.
struct OwnersParameters {
  Meeting meeting;
  void* areas[kMostRanks];  // of each rank, seen by all: [rows, columns]; null: it has none of the rows that are wanted
  const void* x;            // [rows, columns]
  void* y;                  // [rows, kept]
  const int32_t* slot;      // [rows]; negative: zeros
  int64_t x_stride;
  int64_t y_stride;
  RowCount rows;
  int32_t own;    // this rank
  int32_t slots;  // of each rank
  int32_t columns;
  int32_t first_kept;
  int32_t kept;
};

// Ranks on several hosts (lower_hosts.cpp)

/// sum_of_host: those additions of a sum that a host can do alone, of some columns.
struct HostSumParameters {
  Meeting meeting;                 // of the host's ranks
  const float* roots[kMostRanks];  // of each rank of the host: f32 [its roots, rows, columns]
  const int32_t*
      plan;  // [ranks + 1] first roots, then pairs (dst, src) of all sums, then the root of each sum's result
  float* y;  // [sums, rows, end − begin]
  RowCount rows;
  int32_t columns;
  int32_t begin;  // columns that are summed here; none: the rank only meets the others
  int32_t end;
  int32_t additions;
  int32_t sums;
};

/// sum_of_hosts: the other additions, as sum_of_ranks ends. Each rail got some columns of the sums of all hosts.
struct HostsSumParameters {
  Meeting meeting;                    // of the host's ranks
  const float* received[kMostRanks];  // by each rail: f32 [roots, rows, its columns]
  const int32_t* plan;                // [rails + 1] bounds of the rails' columns, then pairs (dst, src)
  const void* residual;               // of y's type [rows, columns], dense; may be null
  void* y;                            // dense
  RowCount rows;
  int32_t columns;
  int32_t rails;
  int32_t roots;  // of all hosts
  int32_t additions;
  int32_t result;
  int32_t y_type;  // ElementType
};

/// owners_of_hosts_2, owners_of_hosts_4: each row from the host whose rank holds its slot. Each rail got some columns
/// of the rows of all hosts.
struct HostsOwnersParameters {
  Meeting meeting;                   // of the host's ranks
  const void* received[kMostRanks];  // by each rail: [hosts, rows, its columns]
  const int32_t* plan;               // [rails + 1] bounds of the rails' columns, then the host of each rank
  void* y;                           // [rows, kept]
  const int32_t* slot;               // [rows]; negative: zeros
  int64_t y_stride;
  RowCount rows;
  int32_t slots;  // of each rank
  int32_t ranks;  // of all hosts
  int32_t rails;
  int32_t first_kept;
  int32_t kept;
};

}  // namespace lockstep::cuda
