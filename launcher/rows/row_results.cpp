#include "launcher/rows/row_results.h"

#include <unordered_map>
#include <utility>

namespace lockstep::launcher {
namespace {

class JournalResults final : public RowResults {
 public:
  explicit JournalResults(std::unique_ptr<journal::Journal> journal) : journal_(std::move(journal)) {}

  uint64_t done() const override { return journal_->done(); }
  bool is_done(uint64_t row) const override { return journal_->is_done(row); }
  Result<void> append(std::span<const journal::RowResult> rows) override { return journal_->append(rows); }
  Result<journal::RowResult> read(uint64_t row) const override { return journal_->read(row); }

 private:
  std::unique_ptr<journal::Journal> journal_;
};

class MemoryResults final : public RowResults {
 public:
  uint64_t done() const override { return rows_.size(); }
  bool is_done(uint64_t row) const override { return rows_.contains(row); }
  Result<void> append(std::span<const journal::RowResult> rows) override {
    for (const journal::RowResult& row : rows) rows_.emplace(row.row, row);
    return ok();
  }
  Result<journal::RowResult> read(uint64_t row) const override { return rows_.at(row); }

 private:
  std::unordered_map<uint64_t, journal::RowResult> rows_;
};

}  // namespace

std::unique_ptr<RowResults> keep_in_journal(std::unique_ptr<journal::Journal> journal) {
  return std::make_unique<JournalResults>(std::move(journal));
}

std::unique_ptr<RowResults> keep_in_memory() { return std::make_unique<MemoryResults>(); }

}  // namespace lockstep::launcher
