// Runs a model on ranks that are threads of the test: partition, graphs, shards, actors and communicator as in the
// program, without processes. One call is one session.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/request.h"
#include "runtime/backends/cpu/isa.h"
#include "runtime/core/dtype.h"
#include "runtime/device/option_row.h"
#include "shards/partition/partition.h"
#include "shards/step_engine.h"
#include "tests/same_bits.h"  // IWYU pragma: export

namespace lockstep::model {

/// The source of weights: the directory's files; a hash of their names and places (shards::RandomWeights); or the
/// same with NaN for the embedding of token 0.
enum class Weights { kStored, kRandom, kRandomNanOfToken0 };

/// How ranks that are threads reach each other.
enum class Wire { kLoopback, kShm };

/// The passes over the graphs before compilation: joined weights and so on, or none.
enum class Passes { kDefault, kNone };

/// What products read of a quantised checkpoint: its codes, or elements that are decoded while they are loaded.
enum class CodedMatrices { kInCodes, kDecoded };

/// How a model is run.
struct GroupOptions {
  std::string backend = "cpu";  // or "reference", "cuda"
  int ranks = 1;
  int threads = 1;  // of each rank
  int64_t slots = 1;
  int64_t chunk = 16;
  int64_t capacity = 128;
  DType dtype = DType::kFloat32;
  std::optional<checkpoint::MatrixFormat> served;  // the format that matrices get while they are read
  CodedMatrices coded = CodedMatrices::kInCodes;
  CacheType cache = CacheType::kModel;  // of keys and values
  partition::ExpertSplit experts = partition::ExpertSplit::kColumns;
  actors::Logits logits = actors::Logits::kOmit;
  std::vector<int> hosts = {};  // rank r is on host hosts[r], as its communicator and backend see it; empty: all on one
  Wire wire = Wire::kLoopback;  // of ranks on one host
  Weights weights = Weights::kStored;
  std::optional<cpu::Isa> isa = std::nullopt;  // of the cpu backend; default: the machine's best
  partition::Numerics numerics = partition::Numerics::kInvariant;
  partition::GqaMode gqa = partition::GqaMode::kAuto;
  std::vector<int64_t> batch_sizes = {}, context_buckets = {}, token_buckets = {};  // as shards::ShardOptions
  Passes passes = Passes::kDefault;
  device::OptionValues backend_options = {};  // of the backend, by name
};

/// One row to continue.
struct Row {
  std::vector<int32_t> ids;
  shards::SlotParameters parameters;
};

/// The result of a run.
struct RowAnswer {
  std::vector<int32_t> tokens;
  std::vector<float> logits;  // [tokens, vocabulary]
  generation::FinishReason reason = generation::FinishReason::kError;
};

/// The result of a session.
struct GroupAnswer {
  std::vector<RowAnswer> rows;
  int graphs = 0;  // that rank 0 compiled, from its start to its end
};

/// Runs all rows in one session; element i answers row i. A failure of any rank is the result's error.
Result<GroupAnswer> run_rows(const std::filesystem::path& model, const GroupOptions& options,
                             const std::vector<Row>& rows);

}  // namespace lockstep::model
