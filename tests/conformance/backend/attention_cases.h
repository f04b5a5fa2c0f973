// Steps that append rows to a cache and attend with them.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/conformance/backend/session.h"

namespace lockstep::conformance {

/// The types of the rows and of the caches.
struct CacheElements {
  DType dtype = DType::kFloat32;
  std::optional<DType> cache = {};  // in 8 bits; empty: as `dtype`
};
std::ostream& operator<<(std::ostream& stream, const CacheElements& elements);

/// Caches as a backend can have them: float32 first, then those in 8 bits.
std::vector<CacheElements> elements_of_caches(const BackendUnderTest& backend);

/// The token rows of some sequences: row t belongs to slot[t] and has position[t].
struct Rows {
  std::vector<int32_t> slot;
  std::vector<int32_t> position;

  int64_t size() const { return static_cast<int64_t>(slot.size()); }
  void add(int32_t s, int32_t p) { slot.push_back(s), position.push_back(p); }
  void add_padding() { add(-1, 0); }
};

/// All rows of slots 0, 1, … of these lengths, interleaved, with a padding row after every fifth.
Rows interleaved(const std::vector<int32_t>& lengths);

struct Heads {
  std::vector<int64_t> map;  // query head → cache head
  int64_t cache = 1;
  int64_t dim = 8;

  int64_t query() const { return static_cast<int64_t>(map.size()); }
};

/// The features of an attention besides the plain softmax. Absent parts are off.
struct AttentionStep {
  DType dtype = DType::kFloat32;
  Heads heads;
  int64_t slots = 1;
  int64_t capacity = 70;
  std::string kernel = "prefill";
  int64_t window = 0;
  bool chunked = false;
  int64_t pinned = 0;
  double soft_cap = 0.0;
  int64_t bound = 0;
  std::string per_head = {};        // "sinks" or "slopes"
  int64_t value_columns = 0;        // values are so many columns of the keys; 0: they have a cache
  uint64_t seed = 1;                // of q, k and v
  std::optional<DType> cache = {};  // elements of the caches, if others than `dtype`
};

/// Appends all rows to the caches kv.0.k and kv.0.v (with `value_columns`, to the first) and attends with those rows;
/// q, k, v and pinned_q are inputs, the output is y.
Case append_and_attend(const AttentionStep& step, const Rows& rows);

/// Runs the cases one after the other over the same states and holds every outcome against the scalar model's and the
/// reference backend's.
void expect_sequence_conforms(const BackendUnderTest& backend, const std::vector<Case>& cases, double tolerance);

}  // namespace lockstep::conformance
