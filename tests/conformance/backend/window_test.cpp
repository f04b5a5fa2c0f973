// Sliding windows in a ring: visible keys for any chunk, lap and rejected drafts.
//
// Every written row has a unique tag, its value is one-hot at the tag, and queries are zero, so the softmax is uniform
// and the result shows exactly the writes that a row attended to.
#include <random>

#include "tests/conformance/backend/always_roll.h"
#include "tests/conformance/backend/attention_cases.h"
#include "tests/conformance/backend/backend_test.h"

namespace lockstep::conformance {
namespace {

using testing::ElementsAre;

constexpr int64_t kTags = 160;  // head_dim: as many writes as one history may have

struct Window {
  int64_t size = 0;
  int64_t pinned = 0;
  int64_t rows = 1;  // of a step, at most
  int64_t slots = 1;
  std::string kernel = "prefill";
  bool chunked = false;
  CacheElements elements = {};

  /// The smallest ring: rows are appended before they are attended to. Without a window, some rows.
  int64_t capacity() const { return size == 0 ? 40 : pinned + size - 1 + rows; }
};

/// A cache behind `kv_append` and `attention`, fed with tags.
class TaggedCache {
 public:
  TaggedCache(const BackendUnderTest& backend, const Window& window)
      : window_(window), case_(make_case(window)), session_(backend, {case_.graph}) {
    for (const char* name : {"q", "k", "v"}) case_.inputs.at(name) = zeros(case_.inputs.at(name).type);
    if (window.pinned > 0) case_.inputs.at("pinned_q") = zeros(case_.inputs.at("pinned_q").type);
  }

  /// Feeds rows with these tags; element i holds the tags visible to row i.
  std::vector<std::set<int>> feed(const Rows& rows, const std::vector<int>& tags) {
    Rows padded = rows;
    while (padded.size() < window_.rows) padded.add_padding();
    std::vector<double> v(static_cast<size_t>(window_.rows * kTags));
    for (size_t t = 0; t < tags.size(); ++t) v.at(t * kTags + static_cast<size_t>(tags[t])) = 1;
    case_.inputs.at("slot") = int_tensor({window_.rows}, padded.slot);
    case_.inputs.at("position") = int_tensor({window_.rows}, padded.position);
    case_.inputs.at("v") = tensor(window_.elements.dtype, {window_.rows, kTags}, v);
    session_.run(0, case_.inputs).value();
    const std::vector<double> y = numbers_of(session_.outcome(0).outputs.at("y"));
    std::vector<std::set<int>> visible(tags.size());
    for (size_t t = 0; t < tags.size(); ++t) {
      for (int tag = 0; tag < kTags; ++tag) {
        if (y[t * kTags + static_cast<size_t>(tag)] > 0) visible[t].insert(tag);
      }
    }
    return visible;
  }

  device::Store& store() { return session_.store(); }

 private:
  static Case make_case(const Window& window) {
    Rows rows;
    for (int64_t t = 0; t < window.rows; ++t) rows.add_padding();
    AttentionStep step;
    step.dtype = window.elements.dtype;
    step.cache = window.elements.cache;
    step.heads = {.map = {0}, .cache = 1, .dim = kTags};
    step.slots = window.slots;
    step.capacity = window.capacity();
    step.kernel = window.kernel;
    step.window = window.size;
    step.pinned = window.pinned;
    step.chunked = window.chunked;
    return append_and_attend(step, rows);
  }

  Window window_;
  Case case_;
  Session session_;
};

class Windows : public EveryBackend {};
LOCKSTEP_FOR_EVERY_BACKEND(Windows);

/// Rows [begin, end) of slot 0.
Rows rows_of(int32_t begin, int32_t end) {
  Rows rows;
  for (int32_t p = begin; p < end; ++p) rows.add(0, p);
  return rows;
}

std::vector<int> numbers_from(int begin, int end) {
  std::vector<int> numbers;
  for (int i = begin; i < end; ++i) numbers.push_back(i);
  return numbers;
}

TEST_P(Windows, ShowOnlyTheChunkOfAPosition) {
  for (const int window : {1, 3, 8}) {
    for (const int chunk : {1, 2, 8, 11}) {
      SCOPED_TRACE(testing::Message() << "chunks of " << window << ", steps of " << chunk);
      TaggedCache ring(GetParam(), {.size = window, .rows = chunk, .chunked = true});
      for (int begin = 0; begin < 4 * (window + chunk); begin += chunk) {
        const auto visible = ring.feed(rows_of(begin, begin + chunk), numbers_from(begin, begin + chunk));
        for (int q = begin; q < begin + chunk; ++q) {
          const std::vector<int> expected = numbers_from(q / window * window, q + 1);
          EXPECT_EQ(visible[static_cast<size_t>(q - begin)], std::set<int>(expected.begin(), expected.end())) << q;
        }
      }
    }
  }
}

TEST_P(Windows, ShowExactlyTheLastPositionsForEveryChunkAndLap) {
  for (const int window : {1, 2, 3, 8}) {
    for (const int chunk : {1, 2, 3, 8, 11}) {
      SCOPED_TRACE(testing::Message() << "window " << window << ", chunk " << chunk);
      TaggedCache ring(GetParam(), {.size = window, .rows = chunk});
      for (int begin = 0; begin < 4 * (window + chunk); begin += chunk) {
        const auto visible = ring.feed(rows_of(begin, begin + chunk), numbers_from(begin, begin + chunk));
        for (int q = begin; q < begin + chunk; ++q) {
          const std::vector<int> expected = numbers_from(std::max(0, q - window + 1), q + 1);
          EXPECT_EQ(visible[static_cast<size_t>(q - begin)], std::set<int>(expected.begin(), expected.end())) << q;
        }
      }
    }
  }
}

TEST_P(Windows, DecodeStepsOverWhatChunksWroteInEverySlot) {
  constexpr int kWindow = 5;
  for (const char* kernel : {"prefill", "decode"}) {
    TaggedCache ring(GetParam(), {.size = kWindow, .rows = 3, .slots = 3, .kernel = kernel});
    for (int32_t position = 0; position < 30; ++position) {
      Rows rows;
      rows.add(2, position), rows.add_padding(), rows.add(0, position);
      const auto visible = ring.feed(rows, {position, 159, 100 + position});
      EXPECT_EQ(static_cast<int>(visible[0].size()), std::min(position + 1, kWindow));
      EXPECT_EQ(*visible[0].begin(), std::max(0, position - kWindow + 1)) << kernel;
      EXPECT_TRUE(visible[1].empty());
      EXPECT_EQ(*visible[2].begin(), 100 + std::max(0, position - kWindow + 1)) << kernel;
    }
  }
}

TEST_P(Windows, StartAgainWhereASlotIsUsedAgain) {
  TaggedCache ring(GetParam(), {.size = 4, .rows = 3});
  for (int begin = 0; begin < 21; begin += 3) ring.feed(rows_of(begin, begin + 3), numbers_from(begin, begin + 3));
  const auto visible = ring.feed(rows_of(0, 2), {100, 101});  // nothing of the sequence before
  EXPECT_THAT(visible, ElementsAre(ElementsAre(100), ElementsAre(100, 101)));
}

TEST_P(Windows, CopyASlotWithAllThatItStillHolds) {
  for (Window window : {Window{.rows = 3, .slots = 3}, Window{.size = 4, .rows = 3, .slots = 3},
                        Window{.size = 4, .pinned = 2, .rows = 3, .slots = 3}}) {
    for (const int tokens : {3, 6, 21}) {
      const auto all = elements_of_caches(GetParam());
      window.elements = all[static_cast<size_t>(window.size + window.pinned + tokens / 3) % all.size()];
      SCOPED_TRACE(testing::Message() << "window " << window.size << ", " << tokens << " tokens" << window.elements);
      TaggedCache cache(GetParam(), window);
      for (int p = 0; p < tokens; p += 3) cache.feed(rows_of(p, p + 3), {p, p + 1, p + 2});
      cache.store().copy_slot(0, 2, tokens).value();
      Rows next;
      next.add(2, tokens), next.add(0, tokens), next.add(2, tokens + 1);
      const auto visible = cache.feed(next, {100, 101, 102});
      std::set<int> copied = visible[0], original = visible[1];
      EXPECT_EQ(copied.erase(100), 1u);
      EXPECT_EQ(original.erase(101), 1u);
      EXPECT_EQ(copied, original);
      EXPECT_EQ(visible[2].count(100), 1u);
      EXPECT_EQ(visible[2].count(101), 0u);
    }
  }
}

TEST_P(Windows, RefuseToCopySlotsThatAreNotThere) {
  TaggedCache cache(GetParam(), {.size = 4, .rows = 3, .slots = 2});
  EXPECT_TRUE(cache.store().copy_slot(0, 2, 1).has_error());
  EXPECT_TRUE(cache.store().copy_slot(-1, 0, 1).has_error());
  EXPECT_TRUE(cache.store().copy_slot(1, 1, 1).has_value());
}

/// One sequence that is drafted, partly rejected and written again, as speculation does it.
class History {
 public:
  History(uint64_t seed, const Window& window) : random_(seed), window_(window) {}

  /// The next step: up to `rows` rows from the length on, with new tags.
  int next_rows() { return std::uniform_int_distribution<int>(1, static_cast<int>(window_.rows))(random_); }
  int next_accepted(int rows) { return std::uniform_int_distribution<int>(1, rows)(random_); }

  std::vector<int> write(int rows) {
    std::vector<int> tags;
    for (int i = 0; i < rows; ++i) tags.push_back(next_tag_++);
    written_.resize(static_cast<size_t>(length_));
    written_.insert(written_.end(), tags.begin(), tags.end());
    return tags;
  }
  /// The tags that must be visible to the row at `position`.
  std::set<int> visible(int position) const {
    std::set<int> tags;
    for (int p = 0; p <= position; ++p) {
      if (p > position - window_.size || p < window_.pinned) tags.insert(written_[static_cast<size_t>(p)]);
    }
    return tags;
  }
  void accept(int rows) { length_ += rows; }

  int length() const { return length_; }
  bool has_tags_left() const { return next_tag_ + window_.rows <= kTags; }

 private:
  std::mt19937_64 random_;
  Window window_;
  int length_ = 0;
  int next_tag_ = 0;
  std::vector<int> written_;  // by position: the last tag
};

TEST_P(Windows, ShowTheSameKeysAsTheAlwaysRollingCacheOnRandomSchedulesWithRejectedDrafts) {
  for (int64_t size = 1; size <= 8; ++size) {
    for (const int64_t rows : {int64_t{1}, int64_t{3}, size, size + 2}) {
      const auto all = elements_of_caches(GetParam());
      const CacheElements elements = all[static_cast<size_t>(size + rows) % all.size()];
      SCOPED_TRACE(testing::Message() << "window " << size << ", at most " << rows << " rows" << elements);
      const Window window{
          .size = size, .rows = rows, .kernel = rows % 2 == 0 ? "decode" : "prefill", .elements = elements};
      TaggedCache ring(GetParam(), window);
      AlwaysRollCache rolled(size - 1 + rows, size);
      History history(static_cast<uint64_t>(100 * size + rows), window);
      while (history.has_tags_left()) {
        const int fed = history.next_rows();
        const std::vector<int> tags = history.write(fed);
        const auto visible = ring.feed(rows_of(history.length(), history.length() + fed), tags);
        ASSERT_EQ(visible, rolled.feed(tags)) << "length " << history.length();
        for (int i = 0; i < fed; ++i) {
          ASSERT_EQ(visible[static_cast<size_t>(i)], history.visible(history.length() + i));
        }
        const int accepted = history.next_accepted(fed);
        rolled.take_back(fed - accepted);
        history.accept(accepted);
      }
    }
  }
}

TEST_P(Windows, KeepPinnedKeysInSightOnRandomSchedules) {
  for (int64_t pinned = 1; pinned <= 4; ++pinned) {
    for (const int64_t size : {1, 2, 5}) {
      const auto all = elements_of_caches(GetParam());
      const CacheElements elements = all[static_cast<size_t>(pinned + size) % all.size()];
      SCOPED_TRACE(testing::Message() << pinned << " pinned, window " << size << elements);
      const Window window{.size = size, .pinned = pinned, .rows = 4, .elements = elements};
      TaggedCache ring(GetParam(), window);
      History history(static_cast<uint64_t>(10 * size + pinned), window);
      while (history.has_tags_left()) {
        const int fed = history.next_rows();
        const auto visible = ring.feed(rows_of(history.length(), history.length() + fed), history.write(fed));
        for (int i = 0; i < fed; ++i) {
          ASSERT_EQ(visible[static_cast<size_t>(i)], history.visible(history.length() + i));
        }
        history.accept(history.next_accepted(fed));
      }
    }
  }
}

// ---- the vectors of Hugging Face's SyntheticCacheTest, over the ring ----------------------------------------------

TEST_P(Windows, KeepWhatASlidingCacheOfFourKeeps) {
  TaggedCache one_by_one(GetParam(), {.size = 4, .rows = 4});
  one_by_one.feed(rows_of(0, 4), {1, 2, 3, 4});
  EXPECT_THAT(one_by_one.feed(rows_of(4, 5), {5}), ElementsAre(ElementsAre(2, 3, 4, 5)));
  EXPECT_THAT(one_by_one.feed(rows_of(5, 6), {6}), ElementsAre(ElementsAre(3, 4, 5, 6)));
  TaggedCache prompt(GetParam(), {.size = 4, .rows = 6});
  EXPECT_THAT(prompt.feed(rows_of(0, 6), {1, 2, 3, 4, 5, 6}).back(), ElementsAre(3, 4, 5, 6));
}

TEST_P(Windows, ReturnAndKeepWhatASlidingCacheOfTwoDoes) {
  TaggedCache ring(GetParam(), {.size = 2, .rows = 3});
  const auto all = [](const std::vector<std::set<int>>& visible) {  // the keys that a whole step reads from the cache
    std::set<int> together;
    for (const std::set<int>& row : visible) together.insert(row.begin(), row.end());
    return together;
  };
  const auto prompt = ring.feed(rows_of(0, 3), {10, 20, 30});
  EXPECT_THAT(all(prompt), ElementsAre(10, 20, 30));
  EXPECT_THAT(prompt.back(), ElementsAre(20, 30));
  EXPECT_THAT(ring.feed(rows_of(3, 4), {50}), ElementsAre(ElementsAre(30, 50)));
  const auto two = ring.feed(rows_of(4, 6), {60, 70});
  EXPECT_THAT(all(two), ElementsAre(50, 60, 70));
  EXPECT_THAT(two.back(), ElementsAre(60, 70));
}

TEST(AlwaysRollCache, KeepsWhatSlidingCachesOfFourAndTwoKeep) {
  AlwaysRollCache four(4, 4);
  four.feed({1, 2, 3, 4});
  four.feed({5});
  EXPECT_THAT(four.tags(), ElementsAre(2, 3, 4, 5));
  four.feed({6});
  EXPECT_THAT(four.tags(), ElementsAre(3, 4, 5, 6));
  AlwaysRollCache two(2, 2);
  two.feed({10, 20, 30});
  EXPECT_THAT(two.tags(), ElementsAre(20, 30));
  two.feed({50});
  EXPECT_THAT(two.tags(), ElementsAre(30, 50));
  two.feed({60, 70});
  EXPECT_THAT(two.tags(), ElementsAre(60, 70));
}

// ---- numbers ------------------------------------------------------------------------------------------------------

class WindowedAttention : public EveryBackendAndType {};
LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(WindowedAttention);

/// Slots 0 and 1 in chunks of six rows each, then single rows, several laps.
std::vector<Case> laps(AttentionStep step) {
  std::vector<Case> cases;
  for (int32_t begin = 0; begin < 36; begin += 6, ++step.seed) {
    Rows rows;
    for (int32_t p = begin; p < begin + 6; ++p) rows.add(1, p), rows.add(0, p);
    rows.add_padding();
    cases.push_back(append_and_attend(step, rows));
  }
  step.kernel = "decode";
  for (int32_t p = 36; p < 42; ++p, ++step.seed) cases.push_back(append_and_attend(step, {{0, 1, -1}, {p, p, 0}}));
  return cases;
}

TEST_P(WindowedAttention, ConformsWithEveryOptionOverSeveralLaps) {
  for (const auto& [window, pinned, per_head, soft_cap] : {std::tuple{1, 0, "", 0.0},
                                                           {4, 0, "sinks", 0.0},
                                                           {6, 3, "", 2.0},
                                                           {9, 1, "sinks", 0.0},
                                                           {33, 2, "slopes", 0.0}}) {
    SCOPED_TRACE(testing::Message() << "window " << window << ", " << pinned << " pinned " << per_head);
    AttentionStep step;
    step.dtype = dtype();
    step.heads = {.map = {0, 0, 1}, .cache = 2, .dim = 16};
    step.slots = 3;
    step.window = window;
    step.pinned = pinned;
    step.per_head = per_head;
    step.soft_cap = soft_cap;
    step.capacity = pinned + window - 1 + 6;
    expect_sequence_conforms(backend(), laps(step), tolerance_of(dtype()));
  }
}

TEST_P(WindowedAttention, ConformsInChunks) {
  for (const auto& [window, per_head] : {std::pair{1, ""}, {5, "sinks"}, {16, "slopes"}, {33, ""}}) {
    SCOPED_TRACE(testing::Message() << "chunks of " << window << " " << per_head);
    AttentionStep step;
    step.dtype = dtype();
    step.heads = {.map = {0, 0, 1}, .cache = 2, .dim = 16};
    step.slots = 3;
    step.window = window;
    step.chunked = true;
    step.per_head = per_head;
    step.capacity = window - 1 + 6;
    expect_sequence_conforms(backend(), laps(step), tolerance_of(dtype()));
  }
}

TEST_P(WindowedAttention, IsPlainAttentionWhileTheWindowHoldsEverything) {
  AttentionStep plain;
  plain.dtype = dtype();
  plain.heads = {.map = {0, 0, 1}, .cache = 2, .dim = 16};
  plain.slots = 2;
  AttentionStep windowed = plain;
  windowed.window = 40;
  const Rows rows = interleaved({40, 23});
  const Outcome expected = run_on(backend(), append_and_attend(plain, rows));
  expect_near(run_on(backend(), append_and_attend(windowed, rows)), expected, tolerance_of(dtype()), "plain attention");
}

class FullCache : public EveryBackend {};
LOCKSTEP_FOR_EVERY_BACKEND(FullCache);

TEST_P(FullCache, HoldsRowsAtTheirPositions) {
  CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 3, .slots = 1});
  const graph::ValueId rows = b.input("rows", tensor(DType::kFloat32, {3, 1}, {1, 2, 3}));
  const graph::ValueId slot = b.input("slot", int_tensor({3}, {0, 0, 0}));
  const graph::ValueId position = b.input("position", int_tensor({3}, {0, 1, 2}));
  b.builder.kv_append(rows, b.cache("kv.0.k", {DType::kFloat32, {1, 1, 4, 1}}), slot, position);
  Case c = std::move(b).finish();
  Session session(GetParam(), {c.graph});
  session.run(0, c.inputs).value();
  EXPECT_THAT(numbers_of(session.outcome(0).states.at("kv.0.k")), ElementsAre(1, 2, 3, 0));
  c.inputs.at("rows") = tensor(DType::kFloat32, {3, 1}, {5, 9, 9});
  c.inputs.at("slot") = int_tensor({3}, {0, -1, -1});
  c.inputs.at("position") = int_tensor({3}, {3, 0, 0});
  session.run(0, c.inputs).value();
  EXPECT_THAT(numbers_of(session.outcome(0).states.at("kv.0.k")), ElementsAre(1, 2, 3, 5));
}

}  // namespace
}  // namespace lockstep::conformance
