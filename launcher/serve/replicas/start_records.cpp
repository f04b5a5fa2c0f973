#include "launcher/serve/replicas/start_records.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/process/exit_record.h"

namespace lockstep::serve {

namespace fs = std::filesystem;

StartRecords::StartRecords(fs::path folder, fs::path replica)
    : folder_(std::move(folder)), replica_(std::move(replica)) {}

StartRecords::~StartRecords() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void StartRecords::publish() {
  if (std::exchange(is_published_, true)) return;
  launcher::remove_exit_records(replica_);
  for (const launcher::ExitRecord& record : launcher::read_exit_records(folder_)) {
    std::error_code ignored;
    fs::rename(launcher::exit_record_file(folder_, record.rank), launcher::exit_record_file(replica_, record.rank),
               ignored);
  }
}

ReplicaRecords::ReplicaRecords(fs::path folder) : folder_(std::move(folder)) {
  if (!folder_.empty()) launcher::remove_exit_records(folder_);
}

std::unique_ptr<StartRecords> ReplicaRecords::next() {
  if (folder_.empty()) return nullptr;
  fs::path own;
  std::error_code failed;
  do {  // a server that was killed has left some
    own = folder_ / fmt::format("start-{}", ++starts_);
  } while (fs::exists(own, failed));
  fs::create_directories(own, failed);  // the ranks report that they cannot write there
  return std::make_unique<StartRecords>(std::move(own), folder_);
}

}  // namespace lockstep::serve
