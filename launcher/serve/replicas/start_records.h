// The exit records of a replica's starts, each in a separate folder, since two groups may run at once.
//
//   DIR/start-K/rank-R.json ── the group ends ──┬─► DIR/rank-R.json    its end was the replica's
//                                               └─► removed            it was replaced, or never took over
#pragma once

#include <filesystem>
#include <memory>

namespace lockstep::serve {

/// The records of one start. Neither copied nor moved.
class StartRecords {
 public:
  /// `folder`: of this start, which owns it; `replica`: where the records of the last group that has ended are.
  StartRecords(std::filesystem::path folder, std::filesystem::path replica);
  /// Removes the folder.
  ~StartRecords();
  StartRecords(const StartRecords&) = delete;
  StartRecords& operator=(const StartRecords&) = delete;

  /// Where the ranks write.
  const std::filesystem::path& folder() const { return folder_; }
  /// Moves the records to the replica's folder, in place of those there; once, after the end of the ranks.
  void publish();

 private:
  const std::filesystem::path folder_, replica_;
  bool is_published_ = false;
};

/// Makes the folders of one replica's starts.
class ReplicaRecords {
 public:
  /// `folder`: of --exit-record; empty: no records are wanted. Removes the records that an earlier server has left.
  explicit ReplicaRecords(std::filesystem::path folder);

  /// For the next start, in a new folder; null: no records are wanted.
  std::unique_ptr<StartRecords> next();

 private:
  const std::filesystem::path folder_;
  int starts_ = 0;
};

}  // namespace lockstep::serve
