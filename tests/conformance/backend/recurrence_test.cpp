// Recurrent layers: any cut of a sequence gives the same bits; slots go back, start again and are copied.
//
// The expected values come from a sequence's whole history by the definitions, in double precision, without any state.
#include <cmath>
#include <random>

#include "tests/conformance/backend/backend_test.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;

constexpr int64_t kSlots = 3, kRows = 24;

/// What a slot's sequence was so far: the inputs of its rows.
using History = std::vector<std::vector<double>>;

/// Rows of one step for some slots, each a run.
struct Feed {
  std::vector<int32_t> slot, position;
  std::vector<std::vector<double>> x;

  void add(int32_t of_slot, int32_t at, std::vector<double> row) {
    slot.push_back(of_slot);
    position.push_back(at);
    x.push_back(std::move(row));
  }
};

/// A graph of one recurrent operation over some slots, fed with rows of `width` inputs.
class Recurrence {
 public:
  virtual ~Recurrence() = default;
  virtual int64_t width() const = 0;
  /// How far a slot may go back.
  virtual int64_t rewind() const = 0;
  /// The output of the history's last row.
  virtual std::vector<double> expected(const History& history) const = 0;
  /// The graph, with its weights.
  virtual Case make(DType dtype) const = 0;
  /// The inputs of a step beside slot and position.
  virtual Contents inputs(DType dtype, const Feed& feed) const = 0;

 protected:
  /// Columns [begin, end) of the fed rows, padded with noise to the step's rows.
  static TensorData columns(DType dtype, const Feed& feed, int64_t begin, int64_t end) {
    std::vector<double> values;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = begin; i < end; ++i) {
        const bool is_fed = row < std::ssize(feed.x);
        values.push_back(is_fed ? feed.x[static_cast<size_t>(row)][static_cast<size_t>(i)] : 0.75);
      }
    }
    return tensor(dtype, {kRows, end - begin}, values);
  }
  static Contents rows_of(const Feed& feed) {
    std::vector<int32_t> slot = feed.slot, position = feed.position;
    slot.resize(kRows, -1);
    position.resize(kRows, 0);
    return {{"slot", int_tensor({kRows}, slot)}, {"position", int_tensor({kRows}, position)}};
  }
};

double silu(double x) { return x / (1.0 + std::exp(-x)); }

class Convolution final : public Recurrence {
 public:
  int64_t width() const override { return kChannels; }
  int64_t rewind() const override { return kKept - (kTaps - 1); }

  std::vector<double> expected(const History& history) const override {
    const std::vector<double> weights = numbers_of(weights_);
    std::vector<double> sums(kChannels);
    for (int64_t tap = 0; tap < kTaps; ++tap) {
      const int64_t at = std::ssize(history) - kTaps + tap;
      for (size_t n = 0; at >= 0 && n < kChannels; ++n) {
        sums[n] += weights[n * kTaps + static_cast<size_t>(tap)] * history[static_cast<size_t>(at)][n];
      }
    }
    for (double& sum : sums) sum = silu(sum);
    return sums;
  }

  Case make(DType dtype) const override {
    CaseBuilder c({.name = "convolution", .rows = kRows, .slots = kSlots});
    const ValueId x = c.input("x", zeros({dtype, {kRows, kChannels}}));
    const ValueId weight = c.weight("weight", tensor(dtype, {kChannels, kTaps}, numbers_of(weights_)));
    const ValueId rows = c.cache("rows", {dtype, {kSlots, kKept, kChannels}});
    const ValueId slot = c.input("slot", int_tensor({kRows}, std::vector<int32_t>(kRows, -1)));
    const ValueId position = c.input("position", int_tensor({kRows}, std::vector<int32_t>(kRows, 0)));
    c.builder.output("y", c.builder.causal_conv(x, weight, rows, slot, position, "silu"));
    return std::move(c).finish();
  }

  Contents inputs(DType dtype, const Feed& feed) const override {
    Contents all = rows_of(feed);
    all.emplace("x", columns(dtype, feed, 0, kChannels));
    return all;
  }

 private:
  static constexpr int64_t kChannels = 83, kTaps = 4, kKept = 11;
  const TensorData weights_ = random_tensor({DType::kBFloat16, {kChannels, kTaps}}, 5);
};

class DeltaRule final : public Recurrence {
 public:
  int64_t width() const override { return kInputs + 2 * kHeads; }
  int64_t rewind() const override { return kBlock; }

  std::vector<double> expected(const History& history) const override {
    std::vector<double> out;
    for (size_t head = 0; head < kHeads; ++head) {
      std::vector<double> state(kKeyDim * kValueDim), result(kValueDim);
      for (const std::vector<double>& row : history) step(head, row, state, result);
      out.insert(out.end(), result.begin(), result.end());
    }
    return out;
  }

  Case make(DType dtype) const override {
    CaseBuilder c({.name = "delta", .rows = kRows, .slots = kSlots});
    const ValueId x = c.input("x", zeros({dtype, {kRows, kInputs}}));
    const ValueId gates = c.input("gates", zeros({DType::kFloat32, {kRows, 2 * kHeads}}));
    const ValueId a_log = c.weight("a_log", tensor(dtype, {kHeads}, numbers_of(a_log_)));
    const ValueId dt_bias = c.weight("dt_bias", tensor(dtype, {kHeads}, numbers_of(dt_bias_)));
    const auto state = [&](const std::string& name, Shape shape) {
      return c.cache(name, {DType::kFloat32, std::move(shape)});
    };
    const ValueId keys = state("keys", {kSlots, 2 * kKeyHeads, kKeyDim, kBlock});
    const ValueId changes = state("changes", {kSlots, 2 * kHeads, kBlock, kValueDim});
    const ValueId decays = state("decays", {kSlots, 2 * kHeads, kBlock});
    const ValueId borders = state("borders", {kSlots, 2 * kHeads, kKeyDim, kValueDim});
    const ValueId slot = c.input("slot", int_tensor({kRows}, std::vector<int32_t>(kRows, -1)));
    const ValueId position = c.input("position", int_tensor({kRows}, std::vector<int32_t>(kRows, 0)));
    c.builder.output(
        "y", c.builder.gated_delta_rule({x, gates, a_log, dt_bias, keys, changes, decays, borders, slot, position},
                                        {kKeyOf.begin(), kKeyOf.end()}, kEpsilon));
    return std::move(c).finish();
  }

  Contents inputs(DType dtype, const Feed& feed) const override {
    Contents all = rows_of(feed);
    all.emplace("x", columns(dtype, feed, 0, kInputs));
    all.emplace("gates", columns(DType::kFloat32, feed, kInputs, width()));
    return all;
  }

 private:
  static constexpr int64_t kKeyHeads = 2, kHeads = 3, kKeyDim = 5, kValueDim = 19, kBlock = 8;
  static constexpr int64_t kInputs = 2 * kKeyHeads * kKeyDim + kHeads * kValueDim;
  static constexpr std::array<int64_t, kHeads> kKeyOf = {0, 1, 1};
  static constexpr double kEpsilon = 1e-6;

  static std::vector<double> unit(const std::vector<double>& row, size_t first) {
    double squares = kEpsilon;
    for (size_t d = 0; d < kKeyDim; ++d) squares += row[first + d] * row[first + d];
    std::vector<double> result;
    for (size_t d = 0; d < kKeyDim; ++d) result.push_back(row[first + d] / std::sqrt(squares));
    return result;
  }

  void step(size_t head, const std::vector<double>& row, std::vector<double>& state,
            std::vector<double>& result) const {
    const auto key_head = static_cast<size_t>(kKeyOf[head]);
    const std::vector<double> q = unit(row, key_head * kKeyDim), k = unit(row, (kKeyHeads + key_head) * kKeyDim);
    const double beta = 1.0 / (1.0 + std::exp(-row[kInputs + head]));
    const double a = row[kInputs + kHeads + head] + numbers_of(dt_bias_)[head];
    const double decay = std::exp(-std::exp(numbers_of(a_log_)[head]) * std::log1p(std::exp(a)));
    for (double& element : state) element *= decay;
    for (size_t v = 0; v < kValueDim; ++v) {
      double known = 0, read = 0;
      for (size_t d = 0; d < kKeyDim; ++d) known += k[d] * state[d * kValueDim + v];
      const double change = beta * (row[2 * kKeyHeads * kKeyDim + head * kValueDim + v] - known);
      for (size_t d = 0; d < kKeyDim; ++d) state[d * kValueDim + v] += k[d] * change;
      for (size_t d = 0; d < kKeyDim; ++d) read += q[d] * state[d * kValueDim + v];
      result[v] = read / std::sqrt(static_cast<double>(kKeyDim));
    }
  }

  const TensorData a_log_ = tensor(DType::kBFloat16, {kHeads}, {-3.0, 0.5, -1.5});
  const TensorData dt_bias_ = random_tensor({DType::kBFloat16, {kHeads}}, 7);
};

/// A session whose slots remember their histories.
class Sequences {
 public:
  Sequences(const BackendUnderTest& backend, DType dtype, const Recurrence& recurrence)
      : dtype_(dtype), recurrence_(recurrence), session_(backend, {recurrence.make(dtype).graph}), histories_(kSlots) {
    session_.set(recurrence.make(dtype).contents);
  }

  /// Inputs of the row of a slot at a position: the same however often they are made.
  std::vector<double> row_of(int32_t slot, int64_t position, int version) const {
    const auto seed = static_cast<uint64_t>((slot * 1000 + position) * 100 + version);
    return numbers_of(random_tensor({DType::kBFloat16, {recurrence_.width()}}, seed, 2.0));
  }

  /// Goes back to `length`, then feeds `count` rows of a slot; they may be fed together with other slots' rows.
  void plan(Feed& feed, int32_t slot, int64_t length, int64_t count, int version) {
    History& history = histories_[static_cast<size_t>(slot)];
    history.resize(static_cast<size_t>(length));
    for (int64_t i = 0; i < count; ++i) {
      std::vector<double> row = row_of(slot, length + i, version);
      history.push_back(row);
      feed.add(slot, static_cast<int32_t>(length + i), std::move(row));
    }
  }

  /// The outputs of the fed rows.
  std::vector<std::vector<double>> run(const Feed& feed) {
    session_.run(0, recurrence_.inputs(dtype_, feed)).value();
    const std::vector<double> y = numbers_of(session_.outcome(0).outputs.at("y"));
    const size_t width = y.size() / kRows;
    std::vector<std::vector<double>> rows;
    for (size_t t = 0; t < feed.slot.size(); ++t) {
      rows.emplace_back(y.begin() + static_cast<std::ptrdiff_t>(t * width),
                        y.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
    }
    for (size_t i = feed.slot.size() * width; i < y.size(); ++i) EXPECT_EQ(y[i], 0.0) << "padding";
    return rows;
  }

  void run_and_check(const Feed& feed) {
    const std::vector<std::vector<double>> rows = run(feed);
    std::vector<double> actual, expected;
    for (size_t t = 0; t < rows.size(); ++t) {
      actual.insert(actual.end(), rows[t].begin(), rows[t].end());
      const History& all = histories_[static_cast<size_t>(std::max(feed.slot[t], 0))];
      const History until(all.begin(), all.begin() + feed.position[t] + 1);
      const std::vector<double> row = recurrence_.expected(until);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    const Shape shape{std::ssize(actual)};
    EXPECT_TRUE(is_near(tensor(dtype_, shape, actual), tensor(dtype_, shape, expected), 4 * tolerance_of(dtype_)));
  }

  int64_t length(int32_t slot) const { return std::ssize(histories_[static_cast<size_t>(slot)]); }
  void copy(int32_t from, int32_t to) {
    session_.store().copy_slot(from, to, length(from)).value();
    histories_[static_cast<size_t>(to)] = histories_[static_cast<size_t>(from)];
  }
  Result<void> try_run(const Feed& feed) { return session_.run(0, recurrence_.inputs(dtype_, feed)); }
  const History& history(int32_t slot) const { return histories_[static_cast<size_t>(slot)]; }
  device::Backend& backend() { return session_.backend(); }
  device::Store& store() { return session_.store(); }

 private:
  const DType dtype_;
  const Recurrence& recurrence_;
  Session session_;
  std::vector<History> histories_;
};

class Recurrences : public EveryBackendAndType {
 protected:
  void SetUp() override {
    EveryBackendAndType::SetUp();
    if (IsSkipped()) return;
    if (!backend().make(/*threads=*/1).value()->capabilities().recurrences) {
      GTEST_SKIP() << backend().name << " does not run recurrent layers";
    }
  }
  static std::vector<std::unique_ptr<Recurrence>> all() {
    std::vector<std::unique_ptr<Recurrence>> kinds;
    kinds.push_back(std::make_unique<Convolution>());
    kinds.push_back(std::make_unique<DeltaRule>());
    return kinds;
  }
};
LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(Recurrences);

TEST_P(Recurrences, AreThoseOfTheWholeSequenceInAnyCut) {
  for (const auto& kind : all()) {
    Sequences sequences(backend(), dtype(), *kind);
    std::mt19937 random(11);
    const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
    for (int version = 0; version < 40; ++version) {
      Feed feed;
      int64_t left = kRows;
      for (int32_t slot = 0; slot < kSlots; ++slot) {
        const int64_t length = sequences.length(slot);
        const bool starts = length > 60 || below(12) == 0;
        const int64_t back = below(4) == 0 ? std::min(length, below(kind->rewind() + 1)) : 0;
        const int64_t count = std::min(left, below(3) == 0 ? below(20) : below(3));
        if (count == 0) continue;
        sequences.plan(feed, slot, starts ? 0 : length - back, count, version);
        left -= count;
      }
      sequences.run_and_check(feed);
    }
  }
}

TEST_P(Recurrences, HaveTheBitsOfOneRowAtATime) {
  for (const auto& kind : all()) {
    Sequences by_rows(backend(), dtype(), *kind), by_chunks(backend(), dtype(), *kind);
    if (!by_rows.backend().capabilities().invariant_sums) GTEST_SKIP() << "sums depend on the shape";
    std::vector<std::vector<double>> singles, chunks;
    for (int64_t at = 0; at < 50; ++at) {
      Feed feed;
      by_rows.plan(feed, 1, at, 1, 0);
      singles.push_back(by_rows.run(feed).front());
    }
    for (const int64_t count : {3, 13, 24, 1, 9}) {
      Feed feed;
      feed.add(-1, 0, by_chunks.row_of(0, 0, 0));
      by_chunks.plan(feed, 1, by_chunks.length(1), std::min(count, kRows - 1), 0);
      const auto rows = by_chunks.run(feed);
      chunks.insert(chunks.end(), rows.begin() + 1, rows.end());
    }
    singles.resize(chunks.size());
    EXPECT_EQ(chunks, singles);
  }
}

TEST_P(Recurrences, GoOnInACopy) {
  for (const auto& kind : all()) {
    Sequences sequences(backend(), dtype(), *kind);
    for (const int64_t count : {20, 21}) {
      Feed feed;
      sequences.plan(feed, 0, sequences.length(0), count, 0);
      sequences.run_and_check(feed);
    }
    sequences.copy(0, 2);
    Feed feed;
    sequences.plan(feed, 0, sequences.length(0), 2, 1);
    sequences.plan(feed, 2, sequences.length(2) - 3, 9, 2);
    sequences.run_and_check(feed);
  }
}

TEST_P(Recurrences, RefuseRowsThatAreNotRuns) {
  for (const auto& kind : all()) {
    Sequences sequences(backend(), dtype(), *kind);
    const std::vector<double> row = sequences.row_of(0, 0, 0);
    Feed apart, jumping;
    for (const int32_t slot : {0, 1, 0}) apart.add(slot, slot == 1 ? 0 : std::ssize(apart.slot) > 0 ? 1 : 0, row);
    for (const int32_t position : {0, 2}) jumping.add(0, position, row);
    for (const Feed* feed : {&apart, &jumping}) {
      const auto run = sequences.try_run(*feed);
      ASSERT_FALSE(run.has_value());
      EXPECT_EQ(run.error().kind, ErrorKind::kInvalidArgument);
      EXPECT_THAT(run.error().message, testing::HasSubstr("one after the other"));
    }
  }
}

TEST_P(Recurrences, KeepTheirStatesFromTheHost) {
  const DeltaRule rule;
  Sequences sequences(backend(), dtype(), rule);
  Feed feed;
  sequences.plan(feed, 1, 0, 12, 0);
  sequences.run_and_check(feed);
  const device::StateId decays = sequences.store().find_state("decays").value();
  std::vector<std::byte> byte(1);
  EXPECT_FALSE(sequences.store().write_state(decays, 0, byte).has_value());
  EXPECT_FALSE(sequences.store().read_state(decays, 0, byte).has_value());
  EXPECT_TRUE(sequences.store().read_cache(decays).has_value());
}

}  // namespace
}  // namespace lockstep::conformance
