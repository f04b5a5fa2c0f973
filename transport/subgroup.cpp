#include "transport/subgroup.h"

#include "runtime/core/check.h"
#include "transport/exchange.h"

namespace lockstep::transport {
namespace {

class SubgroupBootstrap final : public Bootstrap {
 public:
  SubgroupBootstrap(std::unique_ptr<device::Communicator> among, std::vector<RankPlace> places)
      : among_(std::move(among)), places_(std::move(places)) {}

  int rank() const override { return among_->rank(); }
  int size() const override { return among_->size(); }
  std::string name() const override { return "subgroup (" + among_->name() + ")"; }
  Result<std::vector<std::string>> exchange(std::string_view mine) override { return exchange_over(*among_, mine); }
  Result<void> barrier() override { return among_->barrier(device::Stream::host()); }
  Result<std::vector<RankPlace>> places() override { return places_; }
  Result<void> finish() override { return barrier(); }

 private:
  std::unique_ptr<device::Communicator> among_;
  std::vector<RankPlace> places_;
};

}  // namespace

std::unique_ptr<Bootstrap> make_subgroup(std::unique_ptr<device::Communicator> among, std::vector<RankPlace> places) {
  LOCKSTEP_CHECK(among->size() == static_cast<int>(places.size()), among->size(), places.size());
  return std::make_unique<SubgroupBootstrap>(std::move(among), std::move(places));
}

}  // namespace lockstep::transport
