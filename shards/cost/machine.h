// A machine as numbers: the rates of a rank's reads and products, the rates shared by a host's ranks, and the time of a
// collective.
//
//   a rank's rate       min(rank's own, host's / ranks on a host)
//   all-reduce          the cheaper of two algorithms, for P ranks that contribute m bytes each to a result of n bytes:
//                         every rank reads everything   1 exchange, (P − 1) · m received
//                         every rank finishes a slice   2 exchanges, (P − 1) / P · (m + n) received
//   all-gather, agree   1 exchange; received: the contributions of the others
//   an exchange         latency · ⌈log2 P⌉ + received bytes / bandwidth, by the row of the table for its message
//   several hosts       where their links are known: the collective of a host's ranks, then an exchange of the H hosts
//                       in which every rank receives the (H − 1) other hosts' results of it
//
// (Latency and bandwidth as in the α–β model: Hockney, Parallel Computing 20, 1994; the costs of collectives by it:
// Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005.) A single rank has no communication.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/core/result.h"
#include "shards/cost/step_work.h"

namespace lockstep::cost {

/// Bytes and floating-point operations a second.
struct Rates {
  double read_bytes_per_s = std::numeric_limits<double>::infinity();
  double flops_per_s = std::numeric_limits<double>::infinity();

  friend bool operator==(const Rates&, const Rates&) = default;
};

/// A line of the table: messages of up to `bytes`.
struct LinkRow {
  int64_t bytes = std::numeric_limits<int64_t>::max();  // that one rank contributes
  double latency_s = 0;
  double bytes_per_s = std::numeric_limits<double>::infinity();

  friend bool operator==(const LinkRow&, const LinkRow&) = default;
};

/// Latency and bandwidth between ranks. Rows rise by bytes; the last one covers all larger messages. At least one.
struct Link {
  std::vector<LinkRow> rows;

  friend bool operator==(const Link&, const Link&) = default;
};

/// One measurement: an all-reduce of `bytes` on every rank and an all-gather with that result, one after the other.
struct LinkMeasurement {
  int64_t bytes = 0;
  double seconds = 0;

  friend bool operator==(const LinkMeasurement&, const LinkMeasurement&) = default;
};

/// The table that runs through `measured`, which rises by bytes (at least one), taken with `ranks` (at least 2).
Link link_from(const std::vector<LinkMeasurement>& measured, int ranks);

struct MachineLimits {
  Rates rank;              // the most that a rank reaches
  Rates host;              // of all ranks of a host together; infinite: not shared
  int ranks_per_host = 0;  // 0: all on one
  Link link;
  Link between_hosts = {};  // no rows: as `link`

  /// The rates of each of `ranks` ranks.
  Rates of_each(int ranks) const;
  /// Fails with `kInvalidArgument` naming what is not positive, or not finite where it must be.
  Result<void> validate() const;
  friend bool operator==(const MachineLimits&, const MachineLimits&) = default;
};

/// Seconds of one collective; `by_rank[r]` is rank r's, `rows` the token rows in use.
double collective_seconds(const MachineLimits& machine, const std::vector<Collective>& by_rank, int64_t rows);

}  // namespace lockstep::cost
