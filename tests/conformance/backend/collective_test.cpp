// Operations that exchange with other ranks; the ranks are threads over loopback.
#include <cmath>

#include "tests/conformance/backend/backend_test.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;
using testing::ElementsAre;
using testing::HasSubstr;

class CollectiveOperations : public EveryBackendAndType {};
LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(CollectiveOperations);

graph::GraphHeader header(int ranks, int rank, int64_t rows, int64_t slots = 1) {
  return {.name = "test", .ranks = ranks, .rank = rank, .rows = rows, .slots = slots};
}

/// Columns [begin, end) of a matrix.
TensorData columns_of(const TensorData& matrix, int64_t begin, int64_t end) {
  const std::vector<double> all = numbers_of(matrix);
  const int64_t width = matrix.type.shape[1];
  std::vector<double> part;
  for (int64_t r = 0; r < matrix.type.shape[0]; ++r) {
    part.insert(part.end(), all.begin() + r * width + begin, all.begin() + r * width + end);
  }
  return tensor(matrix.type.dtype, {matrix.type.shape[0], end - begin}, part);
}

/// x · wᵀ with the columns divided by `split`: one case per rank.
std::vector<Case> divided_product(const TensorData& x, const TensorData& w, const BlockSplit& split, int64_t block) {
  std::vector<Case> cases;
  const int64_t width = x.type.shape[1];
  for (int rank = 0; rank < split.ranks(); ++rank) {
    const Range leaves = split.range_of(rank);
    const int64_t begin = std::min(leaves.begin * block, width);
    const int64_t end = std::min(leaves.end * block, width);
    CaseBuilder b(header(split.ranks(), rank, x.type.shape[0]));
    const ValueId roots = b.builder.linear_blocks(b.input("x", columns_of(x, begin, end)),
                                                  b.weight("w", columns_of(w, begin, end)), split, block);
    b.builder.output("roots", roots);
    b.builder.output("sum", b.builder.all_reduce(roots, split, DType::kFloat32));
    b.builder.output("rounded", b.builder.all_reduce(roots, split, x.type.dtype));
    cases.push_back(std::move(b).finish());
  }
  return cases;
}

/// The sum of a group of one, with the same leaves.
TensorData undivided_sum(const BackendUnderTest& backend, const TensorData& x, const TensorData& w, int64_t leaves,
                         int64_t block) {
  return run_on(backend, divided_product(x, w, BlockSplit{{0, leaves}}, block).front()).outputs.at("sum");
}

TEST_P(CollectiveOperations, SumTheRootsOfEvenAndUnevenSplits) {
  constexpr int64_t kBlock = 8;
  const bool invariant = backend().make(1).value()->capabilities().invariant_sums;
  for (const BlockSplit& split : {BlockSplit{{0, 2, 4}}, BlockSplit{{0, 5, 9}}, BlockSplit{{0, 1, 7, 9}},
                                  BlockSplit{{0, 3, 6, 9}}, BlockSplit{{0, 1, 2}}, BlockSplit{{0, 0, 2, 3}}}) {
    SCOPED_TRACE(testing::PrintToString(split.bounds));
    const int64_t width = split.leaves() * kBlock - 3;  // the last leaf is narrower
    const TensorData x = random({3, width}, 1);
    const TensorData w = random({19, width}, 2);
    const std::vector<Case> cases = divided_product(x, w, split, kBlock);
    const std::vector<Outcome> actual = run_on_ranks(backend(), cases);
    const std::vector<Outcome> expected = run_on_scalar_model(cases);
    for (size_t r = 0; r < cases.size(); ++r) {
      expect_near(actual[r], expected[r], tolerance_of(dtype()), "rank " + std::to_string(r));
      EXPECT_TRUE(is_same(actual[r].outputs.at("sum"), actual[0].outputs.at("sum"))) << "rank " << r;
    }
    if (!invariant) continue;
    EXPECT_TRUE(is_same(actual[0].outputs.at("sum"), undivided_sum(backend(), x, w, split.leaves(), kBlock)));
  }
}

/// Two products of the looked-up rows, finished together ("left", "right") and separately. The last of five rows is
/// padding.
std::vector<Case> joined_products(DType dtype, const BlockSplit& split, int64_t block) {
  const int64_t width = split.leaves() * block;
  const TensorData w = random_tensor({dtype, {19, width}}, 2), v = random_tensor({dtype, {70, width}}, 3);
  std::vector<Case> cases;
  for (int rank = 0; rank < split.ranks(); ++rank) {
    const Range own{split.range_of(rank).begin * block, split.range_of(rank).end * block};
    CaseBuilder b(header(split.ranks(), rank, 5));
    const ValueId ids = b.input("ids", int_tensor({5}, {3, 1, 4, 1, 5}));
    const ValueId table = b.weight("table", random_tensor({dtype, {6, width}}, 1));
    const ValueId rows = b.builder.lookup(ids, table, /*offset=*/0);
    b.builder.kv_append(rows, b.cache("kv.0.k", {dtype, {1, 1, 5, width}}),
                        b.input("slot", int_tensor({5}, {0, 0, 0, 0, -1})),
                        b.input("position", int_tensor({5}, {0, 1, 2, 3, 4})));
    const ValueId x = b.builder.columns(rows, own);
    const ValueId w_own = b.weight("w", columns_of(w, own.begin, own.end));
    const ValueId right = b.builder.linear_blocks(x, b.weight("v", columns_of(v, own.begin, own.end)), split, block);
    const ValueId joined = b.builder.join_partials(b.builder.linear_blocks(x, w_own, split, block), right);
    const ValueId both = b.builder.all_reduce(joined, split, dtype);
    b.builder.output("left", b.builder.columns(both, {0, 19}));
    b.builder.output("right", b.builder.columns(both, {19, 89}));
    b.builder.output("left alone", b.builder.all_reduce(b.builder.linear_blocks(x, w_own, split, block), split, dtype));
    b.builder.output("right alone", b.builder.all_reduce(right, split, dtype));
    cases.push_back(std::move(b).finish());
  }
  return cases;
}

TEST_P(CollectiveOperations, FinishJoinedSumsAsIfEachWereAlone) {
  for (const BlockSplit& split : {BlockSplit{{0, 6}}, BlockSplit{{0, 5, 9}}, BlockSplit{{0, 1, 7, 9}}}) {
    SCOPED_TRACE(testing::PrintToString(split.bounds));
    const std::vector<Case> cases = joined_products(dtype(), split, /*block=*/8);
    const std::vector<Outcome> actual = run_on_ranks(backend(), cases);
    const std::vector<Outcome> expected = run_on_scalar_model(cases);
    for (size_t r = 0; r < cases.size(); ++r) {
      for (const std::string side : {"left", "right"}) {
        const std::vector<double> joined = numbers_of(actual[r].outputs.at(side));
        const std::vector<double> alone = numbers_of(actual[r].outputs.at(side + " alone"));
        const std::vector<double> by_model = numbers_of(expected[r].outputs.at(side));
        for (size_t i = 0; i < joined.size() / 5 * 4; ++i) {
          ASSERT_EQ(joined[i], alone[i]) << side << " " << i << " of rank " << r;
          ASSERT_NEAR(joined[i], by_model[i], tolerance_of(dtype()) * std::max(1.0, std::abs(by_model[i])));
        }
      }
    }
  }
}

TEST_P(CollectiveOperations, GatherColumnsInRankOrder) {
  const std::vector<int64_t> parts = {3, 1, 7};
  std::vector<Case> cases;
  for (int rank = 0; rank < 3; ++rank) {
    CaseBuilder b(header(3, rank, 5));
    const ValueId x = b.input("x", random({5, parts[static_cast<size_t>(rank)]}, 10 + static_cast<uint64_t>(rank)));
    b.builder.output("y", b.builder.all_gather(x, parts));
    cases.push_back(std::move(b).finish());
  }
  const std::vector<Outcome> actual = run_on_ranks(backend(), cases);
  const std::vector<Outcome> expected = run_on_scalar_model(cases);
  for (size_t r = 0; r < 3; ++r) expect_same(actual[r], expected[r], "rank " + std::to_string(r));
}

/// Three ranks with two slots each, and rows of their slots in any order: x as each rank has it, its own slots, and the
/// rows as their owners have them.
std::vector<Case> owned_rows(const std::vector<int32_t>& slot, const std::vector<int64_t>& parts, DType dtype) {
  const auto rows = static_cast<int64_t>(slot.size());
  std::vector<Case> cases;
  for (int rank = 0; rank < 3; ++rank) {
    CaseBuilder b(header(3, rank, rows, /*slots=*/6));
    const ValueId of_row = b.input("slot", int_tensor({rows}, slot));
    const ValueId x = b.input("x", random_tensor({dtype, {rows, 9}}, 20 + static_cast<uint64_t>(rank)));
    b.builder.output("own", b.builder.own_slots(of_row, 2));
    b.builder.output("rows", b.builder.rows_of_owners(x, of_row, 2, parts));
    cases.push_back(std::move(b).finish());
  }
  return cases;
}

TEST_P(CollectiveOperations, TakeRowsFromTheRanksThatHoldTheirSlots) {
  for (const std::vector<int32_t>& slot :
       {std::vector<int32_t>{0, 1, 2, 3, 4, 5}, {5, -1, 0, 4, 0, 5}, {3, 3, 3, 3, 3, -1}, {-1, -1, -1, -1, -1, -1}}) {
    SCOPED_TRACE(testing::PrintToString(slot));
    const std::vector<Case> cases = owned_rows(slot, {4, 2, 3}, dtype());
    const std::vector<Outcome> actual = run_on_ranks(backend(), cases);
    const std::vector<Outcome> expected = run_on_scalar_model(cases);
    for (size_t r = 0; r < 3; ++r) expect_same(actual[r], expected[r], "rank " + std::to_string(r));
  }
}

TEST_P(CollectiveOperations, TakeNoRowsOfPadding) {
  const Outcome alone = run_on(backend(), [&] {
    CaseBuilder b(header(1, 0, 3, /*slots=*/2));
    const ValueId x = b.input("x", tensor(dtype(), {3, 2}, {1, 2, 3, 4, 5, 6}));
    b.builder.output("rows", b.builder.rows_of_owners(x, b.input("slot", int_tensor({3}, {1, -1, 0})), 2, {2}));
    return std::move(b).finish();
  }());
  EXPECT_THAT(numbers_of(alone.outputs.at("rows")), ElementsAre(1, 2, 0, 0, 5, 6));
}

TEST_P(CollectiveOperations, EmbedWithATableThatIsDividedByRows) {
  const BlockSplit one_leaf_each{{0, 1, 2, 3}};
  std::vector<double> all = numbers_of(random({11, 6}, 1));
  for (const size_t first_of_row : {size_t{0}, size_t{4 * 6}, size_t{10 * 6}}) all[first_of_row] = -0.0;
  const std::vector<int64_t> bounds = {0, 4, 5, 11};
  std::vector<Case> cases;
  for (int rank = 0; rank < 3; ++rank) {
    const int64_t begin = bounds[static_cast<size_t>(rank)];
    const int64_t end = bounds[static_cast<size_t>(rank) + 1];
    CaseBuilder b(header(3, rank, 4));
    const ValueId own =
        b.weight("table", tensor(dtype(), {end - begin, 6}, {all.begin() + begin * 6, all.begin() + end * 6}));
    const ValueId partial = b.builder.embedding(b.input("ids", int_tensor({4}, {0, 4, 10, 3})), own, begin);
    b.builder.output("rows", b.builder.all_reduce(partial, one_leaf_each, dtype()));
    cases.push_back(std::move(b).finish());
  }
  const std::vector<Outcome> actual = run_on_ranks(backend(), cases);
  const bool is_to_the_bit = backend().make(1).value()->capabilities().invariant_sums;
  for (const Outcome& outcome : actual) {
    const std::vector<double> rows = numbers_of(outcome.outputs.at("rows"));
    for (const size_t first_of_row : {0, 6, 12}) EXPECT_TRUE(!is_to_the_bit || std::signbit(rows[first_of_row]));
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(rows[i], all[i]);
      EXPECT_EQ(rows[6 + i], all[4 * 6 + i]);
      EXPECT_EQ(rows[12 + i], all[10 * 6 + i]);
    }
  }
}

/// One rank's `agree`; ranks differ in `last_id` and the first hidden element.
Case agree_case(int ranks, int rank, const TensorData& hidden, std::vector<int32_t> last_id,
                std::vector<int32_t> stop_request) {
  CaseBuilder b(header(ranks, rank, 1, /*slots=*/2));
  const auto state = [&](const char* name) { return b.state(name, int_tensor({2}, {7, 8})); };
  b.builder.agree({b.input("hidden", hidden), b.input("step", int_tensor({2}, {3, 41})),
                   b.state("last_id", int_tensor({2}, last_id)), state("length"), state("output_index"),
                   state("parameter_hash"), b.input("stop_request", int_tensor({2}, stop_request)),
                   b.state("finished", int_tensor({2}, {0, 0}))});
  return std::move(b).finish();
}

/// The result of `run` on each rank.
std::vector<std::optional<Error>> errors_of(const BackendUnderTest& backend, const std::vector<Case>& cases) {
  std::vector<std::optional<Error>> errors(cases.size());
  run_ranks(static_cast<int>(cases.size()), [&](int rank, device::Communicator& communicator) {
    const Case& c = cases[static_cast<size_t>(rank)];
    Session session(backend, {c.graph}, &communicator);
    session.set(c.contents);
    const Result<void> run = session.run(0, c.inputs);
    if (run.has_error()) errors[static_cast<size_t>(rank)] = run.error();
  });
  return errors;
}

void expect_rank_one_named(const std::vector<std::optional<Error>>& errors) {
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->kind, ErrorKind::kFailedPrecondition);
    EXPECT_THAT(error->message, HasSubstr("ranks disagree at schedule 3 step 41"));
    EXPECT_EQ(error->origin_rank, 1);
  }
}

TEST_P(CollectiveOperations, NameTheRankWhoseTokensDiffer) {
  const TensorData hidden = random({2, 20}, 1);
  std::vector<Case> cases;
  for (int rank = 0; rank < 3; ++rank) {
    cases.push_back(agree_case(3, rank, hidden, {5, rank == 1 ? 7 : 6}, {0, 0}));
  }
  expect_rank_one_named(errors_of(backend(), cases));
}

TEST_P(CollectiveOperations, NameTheRankWhoseHiddenStateDiffers) {
  std::vector<Case> cases;
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<double> numbers = numbers_of(random({2, 20}, 1));
    if (rank == 1) numbers[20] *= 1.25;  // the first element of row 1
    cases.push_back(agree_case(3, rank, tensor(dtype(), {2, 20}, numbers), {5, 6}, {0, 0}));
  }
  expect_rank_one_named(errors_of(backend(), cases));
}

TEST_P(CollectiveOperations, ObeyTheStopRequestsOfRankZeroOnly) {
  const TensorData hidden = random({2, 3}, 1);
  std::vector<Case> cases;
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<int32_t> stop_request = rank == 0 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{1, 0};
    cases.push_back(agree_case(3, rank, hidden, {5, 6}, stop_request));
  }
  for (const Outcome& outcome : run_on_ranks(backend(), cases)) {
    EXPECT_THAT(ints_of(outcome.states.at("finished")), ElementsAre(0, 1));
  }
}

}  // namespace
}  // namespace lockstep::conformance
