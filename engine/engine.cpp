#include "lockstep/engine.h"

#include <fmt/format.h>

#include <utility>

#include "engine/drivers.h"
#include "engine/engine_impl.h"
#include "engine/group/agreement.h"
#include "engine/group/communicators.h"
#include "engine/model/plan.h"
#include "engine/model/served_spec.h"
#include "engine/observe/rank_cores.h"
#include "engine/observe/rank_memory.h"
#include "engine/options_text.h"
#include "engine/start_log.h"

namespace lockstep {
namespace {

Error not_leading(std::string_view what) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[engine] cannot {}: found a rank other than 0, expected rank 0; call serve() here", what)};
}

std::vector<int64_t> or_one(const std::vector<int64_t>& sizes, int64_t one) {
  return sizes.empty() ? std::vector<int64_t>{one} : sizes;
}

}  // namespace

Engine::Impl::Impl(group::State& group, Model model, EngineOptions options)
    : group_(&group), leads_(group.first_rank() == 0), model_(std::move(model)), options_(std::move(options)) {}

Engine::Impl::~Impl() {
  if (threads_ == nullptr || end_) return;
  if (ready_ == group_->local_ranks()) session_.session().cancel();
  threads_.reset();
}

Result<void> Engine::Impl::start() {
  group_->phases().close();
  threads_ = std::make_unique<group::RankThreads>(*group_, [this](group::Member& member) {
    struct End {
      Impl& impl;
      ~End() {
        std::lock_guard lock(impl.mutex_);
        impl.has_ended_ = true;
        impl.changed_.notify_all();
      }
    } const end{*this};
    return run_rank(member);
  });
  {
    std::unique_lock lock(mutex_);
    group_->wait(lock, changed_, [this] { return has_ended_ || ready_ == group_->local_ranks(); });
    if (!has_ended_) return ok();
  }
  return join();
}

void Engine::Impl::rank_is_ready() {
  std::lock_guard lock(mutex_);
  ++ready_;
  changed_.notify_all();
}

Result<void> Engine::Impl::join() {
  if (!end_) end_ = threads_->join();
  if (submissions_) submissions_->finish_calls();
  return *end_;
}

Result<void> Engine::Impl::run_rank(group::Member& member) {
  member.phases().enter("plan");
  LOCKSTEP_TRY(const std::string shared, group::value_of_rank_0(member.bootstrap(), to_text(options_)));
  LOCKSTEP_TRY(const EngineOptions options, parse_engine_options(shared));
  observe::Observation observation(options.observe, member);
  const auto driver = engine::find_driver(options.backend);
  LOCKSTEP_TRY_VOID(member.all_succeeded(driver.has_value() ? Result<void>(ok()) : driver.error()));
  LOCKSTEP_TRY(const model::Plan plan, model::make_plan(member, model_, options, *driver.value()));
  LOCKSTEP_TRY_VOID(observation.begin(plan, driver.value()->name()));

  member.phases().enter("connect");
  LOCKSTEP_TRY(const group::ChosenCommunicator chosen,
               group::make_communicator(member, options.communicator, plan.places));
  device::Communicator* const communicator = observation.timed(chosen.communicator.get());
  log_plan(member, plan, chosen);
  LOCKSTEP_TRY(const model::LoadedModel loaded, model::load(member, plan, options, *driver.value(), communicator));
  const auto weight_watch = model::watch_weights(member, loaded, options);

  member.phases().enter("session");
  LOCKSTEP_TRY(const auto in_session, session_.open(member, {options.prefix_reuse, options.chunk_budget_ms}));
  shards::StepEngine& timed = observation.timed(*loaded.engine);
  std::optional<observe::CountedSteps> counted;
  if (member.leads() && group_->progress() != nullptr) counted.emplace(timed, *group_->progress());
  LOCKSTEP_TRY_VOID(member.all_succeeded(open_requests(member, plan, observation)));
  LOCKSTEP_TRY(std::vector<RankMemory> memory, observe::gather_memory(member, loaded));
  const process::CoreWatch core_watch;
  member.phases().enter("run");
  if (member.leads()) note_facts(member, plan, loaded, communicator, *driver.value(), std::move(memory));
  rank_is_ready();
  LOCKSTEP_TRY_VOID(in_session->run(plan.main_thread, counted ? *counted : timed));

  member.phases().enter("report");
  return report(member, loaded, core_watch, observation);
}

/// On rank 0: creates the receivers of requests.
Result<void> Engine::Impl::open_requests(group::Member& member, const model::Plan& plan,
                                         observe::Observation& observation) {
  if (!member.leads()) return ok();
  LOCKSTEP_TRY(const text::Tokenizer* tokenizer, model_.tokenizer());
  const shards::ShardOptions& shard = plan.model.shard;
  const bool gives_logits = shard.logits == families::StepShape::Logits::kOutput;
  if (submissions_ == nullptr) {
    submissions_ = std::make_unique<requests::Submissions>(
        requests::Serving{.model = model_,
                          .clock = clock_,
                          .tokenizer = tokenizer,
                          .limits = {.slots = shard.slots,
                                     .capacity = shard.capacity,
                                     .choosers = gives_logits ? Choosers::kAllowed : Choosers::kNone,
                                     .drafts = shard.drafts,
                                     .scored_top = shard.score_rows > 0 ? shard.score_top : -1,
                                     .embeddings = options_.prompt_embeddings},
                          .on_loss = options_.on_loss});
  }
  submissions_->open(session_.session(), watched_requests(observation),
                     {.stop = {}, .wait = [&group = *group_](auto& lock, auto& changed, const auto& is_done) {
                        group.wait(lock, changed, is_done);
                      }});
  return ok();
}

/// The sink of the session's results: the submissions, behind the counters and logs that are on.
actors::Sink& Engine::Impl::watched_requests(observe::Observation& observation) {
  observe::RequestLog* const log = observation.timed(*submissions_);
  actors::Sink& sink = log != nullptr ? static_cast<actors::Sink&>(*log) : *submissions_;
  group::ProgressReporter* const progress = group_->progress();
  counted_requests_ = progress == nullptr ? nullptr : std::make_unique<observe::CountedRequests>(sink, *progress);
  submissions_->on_submit = [log, counted = counted_requests_.get()](const actors::Request& request, TimePoint at) {
    if (log != nullptr) log->submitted(request.id, at);
    if (counted != nullptr) counted->submitted(request);
  };
  return counted_requests_ != nullptr ? static_cast<actors::Sink&>(*counted_requests_) : sink;
}

void Engine::Impl::note_facts(group::Member& member, const model::Plan& plan, const model::LoadedModel& loaded,
                              const device::Communicator* communicator, const device::BackendDriver& driver,
                              std::vector<RankMemory> memory) {
  const shards::ShardOptions& shard = plan.model.shard;
  member.log().info("{}", phases_line(member.phases()));
  facts_ = {.ranks = member.size(),
            .threads = plan.threads,
            .identity = plan.identity,
            .backend = std::string(driver.name()),
            .backend_settings = engine::settings_of(driver, options_.backend_options),
            .communicator = communicator == nullptr ? "none" : communicator->name(),
            .dtype = std::string(to_string(shard.dtype)),
            .weights = model::weights_in_words(plan.model.spec),
            .kv_dtype = std::string(to_string(plan.model.spec.cache_type)),
            .slots = shard.slots,
            .prefill_chunk = shard.chunk,
            .capacity = shard.capacity,
            .drafts = shard.drafts,
            .batch_sizes = or_one(shard.batch_sizes, shard.slots),
            .context_buckets = or_one(shard.context_buckets, shard.chunk),
            .token_buckets = or_one(shard.token_buckets, shard.capacity),
            .startup = member.phases().seconds(),
            .graphs_expected = loaded.graphs_expected,
            .graphs = loaded.graphs->compiled(),
            .graphs_after_start = {},
            .memory = std::move(memory),
            .cores = {},
            .report = {}};
}

Result<void> Engine::Impl::report(group::Member& member, const model::LoadedModel& loaded,
                                  const process::CoreWatch& core_watch, observe::Observation& observation) {
  LOCKSTEP_TRY(std::vector<RankCores> cores, observe::gather_cores(member, core_watch));
  LOCKSTEP_TRY(std::vector<RankMemory> memory, observe::gather_memory(member, loaded));
  LOCKSTEP_TRY(const std::optional<trace::GroupReport> report, observation.gather());
  if (member.leads()) {
    facts_.memory = std::move(memory);
    facts_.cores = std::move(cores);
    if (const std::string lost = words_of_losses(facts_.cores); !lost.empty()) member.log().info("{}", lost);
    facts_.graphs_after_start = loaded.graphs->compiled_after_close();
    facts_.report = report;
    if (loaded.speculative != nullptr) {
      const shards::DraftStatistics& drafts = loaded.speculative->statistics();
      std::lock_guard lock(mutex_);
      drafts_.steps += drafts.steps;
      drafts_.drafted += drafts.drafted;
      drafts_.accepted += drafts.accepted;
    }
  }
  return observation.write(report, facts_.memory, submissions_ ? submissions_->counters().new_tokens : 0);
}

/// Whether rank 0 may send work to the ranks.
Result<void> Engine::Impl::check_works() const {
  if (!leads()) return not_leading("use the engine");
  if (end_) {
    return Error{
        ErrorKind::kUnavailable,
        "[engine] cannot use the engine: found that its ranks have ended, expected a running engine; resume it "
        "or open another one"};
  }
  if (const std::optional<Error> failure = group_->failure()) return *failure;
  return ok();
}

std::vector<RequestHandle> Engine::Impl::handles_of(std::vector<std::shared_ptr<requests::RequestState>> states) const {
  std::vector<RequestHandle> handles;
  for (auto& state : states) handles.push_back(RequestHandle(std::move(state)));
  return handles;
}

Result<std::vector<RequestHandle>> Engine::Impl::submit(std::vector<Request> requests) {
  LOCKSTEP_TRY_VOID(check_works());
  LOCKSTEP_TRY(auto states, submissions_->submit(std::move(requests)));
  return handles_of(std::move(states));
}

Result<std::vector<ScoreHandle>> Engine::Impl::submit_texts(std::span<const std::vector<int32_t>> texts, int64_t top) {
  LOCKSTEP_TRY_VOID(check_works());
  LOCKSTEP_TRY(auto opened, submissions_->submit_texts(texts, top));
  std::vector<ScoreHandle> handles;
  for (auto& text : opened) handles.push_back(ScoreHandle(std::move(text)));
  return handles;
}

Result<void> Engine::Impl::suspend() {
  LOCKSTEP_TRY_VOID(check_works());
  submissions_->suspend();
  finish();
  return join();
}

Result<void> Engine::Impl::resume(group::State& group) {
  const bool is_over = end_ || group_->failure();
  if (!is_over) {
    return Error{ErrorKind::kFailedPrecondition,
                 "[engine] cannot resume: found a running engine, expected one that is suspended or has lost a rank"};
  }
  if (!end_) static_cast<void>(join());
  if (is_suspended() && group.first_rank() != 0) {
    return Error{
        ErrorKind::kFailedPrecondition,
        "[engine] cannot resume: found a rank other than 0 in the new group, expected rank 0 where requests are "
        "suspended; order the ranks so"};
  }
  threads_.reset();
  group_ = &group;
  leads_ = group.first_rank() == 0;
  {
    std::lock_guard lock(mutex_);
    ready_ = 0;
    has_ended_ = false;
  }
  end_.reset();
  LOCKSTEP_TRY_VOID(start());
  if (leads()) submissions_->resume();
  return ok();
}

Result<std::string> Engine::Impl::suspended() const {
  if (!leads()) return not_leading("name suspended requests");
  LOCKSTEP_TRY(const auto requests, submissions_->suspended());
  return requests::to_text(requests, facts_.identity);
}

Result<std::vector<RequestHandle>> Engine::Impl::restore(std::string_view suspended) {
  LOCKSTEP_TRY_VOID(check_works());
  LOCKSTEP_TRY(auto requests, requests::parse_suspended(suspended, facts_.identity));
  LOCKSTEP_TRY(auto states, submissions_->restore(std::move(requests)));
  return handles_of(std::move(states));
}

EngineCounters Engine::Impl::counters() const {
  if (submissions_ == nullptr) return {};
  EngineCounters counters = submissions_->counters();
  std::lock_guard lock(mutex_);
  counters.draft_steps = drafts_.steps;
  counters.drafted = drafts_.drafted;
  counters.accepted = drafts_.accepted;
  return counters;
}

trace::Activity Engine::Impl::activity(size_t most_steps) const {
  if (submissions_ == nullptr) return {};
  trace::Activity activity = session_.session().activity(most_steps);
  for (trace::SlotActivity& slot : activity.slots) {
    if (slot.request.value >= 0) slot.request = RequestId(submissions_->number_of(slot.request));
  }
  return activity;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(Group& group, const Model& model, const EngineOptions& options) {
  auto impl = std::make_unique<Impl>(group::State::of(group), model, options);
  LOCKSTEP_TRY_VOID(impl->start());
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Result<RequestHandle> Engine::submit(Request request) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  LOCKSTEP_TRY(std::vector<RequestHandle> handles, submit(std::move(requests)));
  return std::move(handles.front());
}

Result<std::vector<RequestHandle>> Engine::submit(std::vector<Request> requests) {
  return impl_->submit(std::move(requests));
}

Result<Answer> Engine::generate(std::string_view prompt, const Overrides& overrides, OnToken on_token) {
  LOCKSTEP_TRY(const std::vector<int32_t> ids, impl_->model().encode(prompt));
  return generate(ids, overrides, std::move(on_token));
}

Result<Answer> Engine::generate(std::span<const int32_t> ids, const Overrides& overrides, OnToken on_token) {
  Request request{.prompt = {.ids = {ids.begin(), ids.end()}}, .config = impl_->model().generation()};
  for (const auto& [name, value] : overrides) LOCKSTEP_TRY_VOID(request.config.set(name, value));
  request.on_token = std::move(on_token);
  LOCKSTEP_TRY(RequestHandle handle, submit(std::move(request)));
  LOCKSTEP_TRY(std::vector<Answer> answers, handle.wait());
  return std::move(answers.front());
}

Result<std::vector<TokenScore>> Engine::score(std::span<const int32_t> ids, int64_t top) {
  const std::vector<std::vector<int32_t>> text{{ids.begin(), ids.end()}};
  LOCKSTEP_TRY(auto scores, score(text, top));
  return std::move(scores.front());
}

Result<std::vector<std::vector<TokenScore>>> Engine::score(std::span<const std::vector<int32_t>> texts, int64_t top) {
  LOCKSTEP_TRY(std::vector<ScoreHandle> handles, impl_->submit_texts(texts, top));
  std::vector<std::vector<TokenScore>> scores;
  for (ScoreHandle& text : handles) {
    LOCKSTEP_TRY(scores.emplace_back(), text.wait());
  }
  return scores;
}

Result<ScoreHandle> Engine::submit_text(std::vector<int32_t> ids, int64_t top) {
  const std::vector<std::vector<int32_t>> text{std::move(ids)};
  LOCKSTEP_TRY(std::vector<ScoreHandle> handles, impl_->submit_texts(text, top));
  return std::move(handles.front());
}

Result<void> Engine::serve() {
  if (!impl_->leads()) return impl_->join();
  return Error{ErrorKind::kFailedPrecondition,
               "[engine] cannot serve: found rank 0, expected another rank; submit requests here, then call close()"};
}

Result<void> Engine::close() {
  if (!impl_->leads()) return not_leading("close the engine");
  impl_->finish();
  return impl_->join();
}

Result<void> Engine::suspend() { return impl_->suspend(); }
Result<void> Engine::resume(Group& group) { return impl_->resume(group::State::of(group)); }
bool Engine::is_suspended() const { return impl_->is_suspended(); }
Result<std::string> Engine::suspended() const { return impl_->suspended(); }
Result<std::vector<RequestHandle>> Engine::restore(std::string_view suspended) { return impl_->restore(suspended); }

const EngineFacts& Engine::facts() const { return impl_->facts(); }
EngineCounters Engine::counters() const { return impl_->counters(); }
trace::Activity Engine::activity(size_t most_steps) const { return impl_->activity(most_steps); }

}  // namespace lockstep
