// Products of many rows: a block computes 128 outputs of 64 or 128 rows, so it reads each weight once for all of them.
//
//   x ─copies that run ahead─► shared memory: 128 bytes of each row a stage ─┬─► warp 0: outputs 0 … 15   ◄─ its
//   weights,
//                                                                            ├─► warp 1: outputs 16 … 31  ◄─ a stage
//                                                                            └─► …                        ◄─ ahead
//
// Every element has the sums of `product`: parts in order, folded along the tree. A thread owns the same elements in
// every part, so its open sums lie in shared memory that it alone touches.
#include "runtime/backends/cuda/kernels/sum_tile.h"
#include "runtime/backends/cuda/kernels/write_product.h"

namespace lockstep::cuda {
namespace {

constexpr int kChunks = 8;  // of 16 bytes, of a row in a stage: all banks
constexpr int kChunkBytes = 16;

template <typename Element, int kGroups>
struct TilesShared {
  Element x[kTilesStages][kGroups * kTileRows][kChunks]
           [kChunkBytes / sizeof(Element)];           // chunk c of row r in c ^ r % 8
  Words open[kMostLevels][kGroups][kProductThreads];  // only as many levels as the parts need
};

template <typename Rows, int kGroups>
class Tiles {
  using Element = typename Rows::Element;
  using Shared = TilesShared<Element, kGroups>;
  static constexpr bool kIsFloat = sizeof(Element) == 4;
  static constexpr int kRows = kGroups * kTileRows;
  static constexpr int kChunk = kChunkBytes / static_cast<int>(sizeof(Element));  // columns
  static constexpr int kSteps = kChunks * kChunk / kStepColumns;                  // of a stage

 public:
  LOCKSTEP_DEVICE Tiles(const ProductParameters& p, Shared& shared)
      : p_(p), shared_(shared), rows_(used(p.rows)), lane_(thread_index() % 32) {
    const int tiles_of_rows = (p.rows.rows + kRows - 1) / kRows;  // side by side: they read the same weights
    first_row_ = block_index() % tiles_of_rows * kRows;
    tile_ = block_index() / tiles_of_rows * kProductWarps + thread_index() / 32;
    has_outputs_ = tile_ * kTileOutputs < p.outputs;
    groups_ = (rows_ - first_row_ + kTileRows - 1) / kTileRows;
    if (groups_ > kGroups) groups_ = kGroups;
  }

  LOCKSTEP_DEVICE void run() {
    if (groups_ <= 0) return;
    Stage coming = first_stage();
    Stage next = coming;
    for (int i = 0; i + 1 < kTilesStages; ++i) fetch(coming, i);
    load_weights(next, 0, kSteps);
    int place = 0;
    for (int part = 0; part < p_.part_count; ++part) {
      const SumPart& of = p_.parts[part];
      for (int step = 0; step < of.steps; step += kSteps) {
        wait_copies<kTilesStages - 2>();
        sync_block();  // all copies are complete, and no thread reads the place that is filled next
        fetch(coming, (place + kTilesStages - 1) % kTilesStages);
        advance(next);
        add_stage(of, step, place, next);
        place = (place + 1) % kTilesStages;
      }
      end_part(of);
    }
    wait_copies<0>();
  }

 private:
  /// Up to kSteps steps of one part.
  struct Stage {
    int part;
    int step;
  };

  /// Passes parts without further steps.
  LOCKSTEP_DEVICE void settle(Stage& stage) const {
    while (stage.part < p_.part_count && stage.step >= p_.parts[stage.part].steps) {
      ++stage.part;
      stage.step = 0;
    }
  }
  LOCKSTEP_DEVICE Stage first_stage() const {
    Stage stage{0, 0};
    settle(stage);
    return stage;
  }
  LOCKSTEP_DEVICE void advance(Stage& stage) const {
    stage.step += kSteps;
    settle(stage);
  }

  /// Starts the copies of a stage of x, if there is one, and goes on to the next.
  LOCKSTEP_DEVICE void fetch(Stage& stage, int place) {
    if (stage.part < p_.part_count) {
      const SumPart& part = p_.parts[stage.part];
      const int chunk = thread_index() % kChunks;
      const int first = part.first_column + stage.step * kStepColumns + chunk * kChunk;
      const int left = part.end_column - first;
      const int bytes = left <= 0 ? 0 : left < kChunk ? left * static_cast<int>(sizeof(Element)) : kChunkBytes;
      const Element* x = static_cast<const Element*>(p_.x) + (left > 0 ? first : 0);
      constexpr int kRowsAtOnce = kProductThreads / kChunks;
      const int rows = (groups_ + 1) / 2 * 2 * kTileRows;
      LOCKSTEP_NO_UNROLL
      for (int row = thread_index() / kChunks; row < rows; row += kRowsAtOnce) {
        const bool is_inside = first_row_ + row < rows_;
        copy_async_16(shared_.x[place][row][chunk ^ row % 8], is_inside ? x + (first_row_ + row) * p_.x_stride : x,
                      is_inside ? bytes : 0);
      }
      advance(stage);
    }
    commit_copies();
  }

  /// The fragments of a step of the warp's outputs.
  LOCKSTEP_DEVICE const Element* weights_of(const SumPart& part, int step) const {
    return static_cast<const Element*>(p_.weights) +
           (static_cast<int64_t>(tile_) * p_.k_steps + part.first_step + step) * (kTileOutputs * kStepColumns);
  }

  /// Loads the fragments of steps [begin, end) of a stage.
  LOCKSTEP_DEVICE void load_weights(const Stage& stage, int begin, int end) {
    if (kIsFloat || !has_outputs_ || stage.part >= p_.part_count) return;
    const SumPart& part = p_.parts[stage.part];
    const Words* words = reinterpret_cast<const Words*>(weights_of(part, stage.step)) + lane_;
    LOCKSTEP_UNROLL
    for (int step = begin; step < end; ++step) {
      if (stage.step + step < part.steps) weights_[step] = load_once(words + step * 32);
    }
  }

  /// Adds a stage of a part, and replaces each step's weights by those of the next stage.
  LOCKSTEP_DEVICE void add_stage(const SumPart& part, int first_step, int place, const Stage& next) {
    LOCKSTEP_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      if (has_outputs_ && first_step + step < part.steps) {
        if constexpr (kIsFloat) {
          add_floats(part, first_step + step, step, place);
        } else if (groups_ == kGroups) {
          add_pairs<true>(weights_[step], step, place);
        } else {
          add_pairs<false>(weights_[step], step, place);
        }
      }
      load_weights(next, step, step + 1);
    }
  }

  /// A step of 16-bit elements, two groups at a time.
  template <bool kIsWhole>
  LOCKSTEP_DEVICE void add_pairs(const Words& weights, int step, int place) {
    const int row = lane_ / 16 * kTileRows + lane_ % 8;
    const int chunk = (2 * step + lane_ / 8 % 2) ^ lane_ % 8;
    LOCKSTEP_UNROLL
    for (int group = 0; group < kGroups; group += 2) {
      if (!kIsWhole && group >= groups_) break;
      uint32_t tokens[4];
      load_matrices(tokens, shared_.x[place][group * kTileRows + row][chunk]);
      const uint32_t first[2] = {tokens[0], tokens[1]};
      const uint32_t second[2] = {tokens[2], tokens[3]};
      multiply<Rows>(sums_[group], weights.word, first);
      multiply<Rows>(sums_[group + 1], weights.word, second);
    }
  }

  /// A step of f32: a lane has one output and four rows of each group. Columns beyond the part's add nothing.
  LOCKSTEP_DEVICE void add_floats(const SumPart& part, int step, int step_of_stage, int place) {
    const int left = part.end_column - part.first_column - step * kStepColumns;
    const int first = lane_ / kTileOutputs * 4;
    const Element* from = weights_of(part, step) + lane_ % kTileOutputs;
    Element weights[kStepColumns];
    LOCKSTEP_UNROLL
    for (int column = 0; column < kStepColumns; ++column) weights[column] = from[column * kTileOutputs];
    LOCKSTEP_UNROLL
    for (int column = 0; column < kStepColumns; ++column) {
      if (column >= left) break;
      const int chunk = (step_of_stage * kStepColumns + column) / kChunk;
      LOCKSTEP_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        if (group >= groups_) break;
        LOCKSTEP_UNROLL
        for (int row = 0; row < 4; ++row) {
          const Element* x = shared_.x[place][group * kTileRows + first + row][chunk ^ (first + row)];
          sums_[group][row] = madd(weights[column], x[column % kChunk], sums_[group][row]);
        }
      }
    }
  }

  LOCKSTEP_DEVICE Words& open_sum(int level, int group) { return shared_.open[level][group][thread_index()]; }

  /// Joins the finished part with the open sums; writes it where it ends a root.
  LOCKSTEP_DEVICE void end_part(const SumPart& part) {
    for (int merge = 0; merge < part.merges; ++merge) {
      --height_;
      LOCKSTEP_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        const Words older = open_sum(height_, group);
        LOCKSTEP_UNROLL
        for (int i = 0; i < 4; ++i) sums_[group][i] = plus(float_of_bits(older.word[i]), sums_[group][i]);
      }
    }
    LOCKSTEP_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      Words newer;
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) newer.word[i] = bits_of(sums_[group][i]);
      open_sum(height_, group) = newer;
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) sums_[group][i] = 0.0f;
    }
    if (part.root < 0) {
      ++height_;
    } else {  // nothing else is open
      LOCKSTEP_NO_UNROLL
      for (int group = 0; group < groups_; ++group) write(part.root, group);
    }
  }

  /// Writes the sums of a group.
  LOCKSTEP_DEVICE void write(int root, int group) {
    const Words sums = open_sum(height_, group);
    LOCKSTEP_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int output = kIsFloat ? lane_ % kTileOutputs : lane_ / 4 + i / 2 * 8;
      const int row = kIsFloat ? lane_ / kTileOutputs * 4 + i : lane_ % 4 * 2 + i % 2;
      const int at = first_row_ + group * kTileRows + row;
      if (at < rows_) {
        write_product<Rows>(p_, root, at, tile_ * kTileOutputs + output, float_of_bits(sums.word[i]));
      }
    }
  }

  const ProductParameters& p_;
  Shared& shared_;
  const int rows_;
  const int lane_;
  int first_row_;
  int tile_;
  bool has_outputs_;
  int groups_;  // that have rows
  int height_ = 0;
  float sums_[kGroups][4] = {};
  Words weights_[kSteps];  // not of f32
};

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void product_tiles(const ProductParameters& p) {
  using Shared = TilesShared<typename Rows::Element, kGroups>;
  follow_previous();
  constexpr int kLevel = sizeof(Shared::open[0]);
  Shared& shared = shared_memory_of<Shared>(static_cast<int>(sizeof(Shared)) - (kMostLevels - p.levels) * kLevel);
  Tiles<Rows, kGroups>(p, shared).run();
}

static_assert(sizeof(TilesShared<float, kTilesGroups>) == product_tiles_bytes(kTilesGroups, kMostLevels));
static_assert(sizeof(TilesShared<Bf16, kWideGroups>) == product_tiles_bytes(kWideGroups, kMostLevels));

}  // namespace

LOCKSTEP_KERNEL(product_tiles_f32, ProductParameters, kProductThreads) { product_tiles<F32Rows, kTilesGroups>(p); }
LOCKSTEP_KERNEL(product_tiles_bf16, ProductParameters, kProductThreads) { product_tiles<Bf16Rows, kTilesGroups>(p); }
LOCKSTEP_KERNEL(product_tiles_f16, ProductParameters, kProductThreads) { product_tiles<F16Rows, kTilesGroups>(p); }
LOCKSTEP_KERNEL(product_wide_bf16, ProductParameters, kProductThreads) { product_tiles<Bf16Rows, kWideGroups>(p); }
LOCKSTEP_KERNEL(product_wide_f16, ProductParameters, kProductThreads) { product_tiles<F16Rows, kWideGroups>(p); }

}  // namespace lockstep::cuda
