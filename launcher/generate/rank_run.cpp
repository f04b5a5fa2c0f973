#include "launcher/generate/rank_run.h"

#include <fmt/format.h>

#include <cstdio>

#include "launcher/commands/generate_report.h"
#include "launcher/commands/logits_file.h"
#include "launcher/generate/answers.h"
#include "launcher/generate/job.h"
#include "launcher/generate/rank_plan.h"
#include "launcher/ranks/observation.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

/// Streams to stdout what a single prompt produces.
Answers::Show show_on_stdout(const GenerateCommand& command, const Job& job) {
  if (job.answers != 1 || command.json) return {};
  return [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
}

/// Every answer under a header line; what was streamed has only its line ended.
void print_texts(const Answers& answers, const Job& job) {
  const size_t answers_each = answers.rows().size() / job.prompts.size();
  for (size_t row = 0; row < answers.rows().size(); ++row) {
    const Answer& answer = answers.rows()[row];
    const std::string ids = fmt::format("{}", fmt::join(answer.tokens, " "));
    if (answers.rows().size() == 1) {
      fmt::print("{}\n", job.tokenizer == nullptr ? ids : "");
      return;
    }
    const std::string which = answers_each == 1 ? "" : fmt::format(", answer {}", row % answers_each);
    const std::string score = answer.score ? fmt::format(", score {:.4f}", *answer.score) : "";
    fmt::print("=== prompt {}{} ({} tokens, {}{})\n{}\n", row / answers_each, which, answer.tokens.size(),
               generation::to_string(answer.reason), score, job.tokenizer == nullptr ? ids : answer.text);
  }
}

void submit_all(actors::Session& session, const Job& job, Answers& answers, Observation& observation) {
  answers.mark_start();
  actors::Sink& sink = observation.timed(answers, job.requests.size(), job.answers);
  for (const JobRequest& made : job.requests) session.submit(made.request, sink);
  session.finish();
}

/// Takes over what the host chose.
void adopt_all(const Job& job, Answers& answers) {
  for (const JobRequest& made : job.requests) {
    if (made.request.chooser) answers.adopt(made.request.id, made.request.chooser->sequences());
  }
}

/// The first error of a request that failed on its own, if there is one.
Result<void> check_answers(const Answers& answers) {
  for (const Answer& answer : answers.rows()) {
    if (answer.error) return *answer.error;
  }
  return ok();
}

/// [rows][tokens · vocabulary]
std::vector<std::vector<float>> logits_of(const Answers& answers) {
  std::vector<std::vector<float>> logits;
  for (const Answer& answer : answers.rows()) logits.push_back(answer.logits);
  return logits;
}

/// [rows][tokens · vocabulary]
std::vector<std::vector<float>> scores_of(const Answers& answers) {
  std::vector<std::vector<float>> scores;
  for (const Answer& answer : answers.rows()) {
    std::vector<float>& row = scores.emplace_back();
    for (const auto& record : answer.records) row.insert(row.end(), record->scores.begin(), record->scores.end());
  }
  return scores;
}

Result<void> write_report(const GenerateCommand& command, const RankContext& context, const Job& job, const Plan& plan,
                          const Answers& answers, const RunFacts& facts) {
  if (command.json) {
    LOCKSTEP_TRY_VOID(write_text_file(*command.json, to_json(answers, facts)));
  } else {
    print_texts(answers, job);
  }
  const int64_t vocabulary = plan.model.spec.vocabulary;
  if (command.output_logits) {
    LOCKSTEP_TRY_VOID(write_logits(*command.output_logits, "logits", logits_of(answers), vocabulary));
  }
  if (command.output_scores) {
    LOCKSTEP_TRY_VOID(write_logits(*command.output_scores, "scores", scores_of(answers), vocabulary));
  }
  std::fflush(stdout);  // the answer comes before what is said of it
  context.log.info("{}", summary(answers, facts));
  return ok();
}

}  // namespace

Result<void> run_rank(const GenerateCommand& command, RankContext given, RankMonitor& monitor) {
  Observation observation(command.observe, given);
  const RankContext& context = observation.context();
  Job job;
  context.phases.enter("plan");
  const auto prepare = [&](const checkpoint::ModelSpec& spec) -> Result<JobSizes> {
    LOCKSTEP_TRY(job, prepare_job(command, spec, context.clock));
    return job.sizes;
  };
  LOCKSTEP_TRY(const std::optional<Plan> made, make_plan(command, context, prepare));
  LOCKSTEP_CHECK(made.has_value());
  const Plan& plan = *made;
  LOCKSTEP_TRY_VOID(observation.begin(plan));
  for (const std::string& warning : job.warnings) context.log.warning("{}", warning);

  context.phases.enter("connect");
  LOCKSTEP_TRY(const ChosenCommunicator chosen, connect(context, plan));
  device::Communicator* communicator = observation.timed(chosen.communicator.get());
  log_plan(context, plan, chosen);

  LOCKSTEP_TRY(const LoadedModel loaded, load_model(context, plan, communicator));

  context.phases.enter("session");
  std::unique_ptr<actors::Session> own_session;
  LOCKSTEP_TRY(actors::Session * session, open_session(context, own_session));
  context.phases.enter("run");
  const bool is_first = context.bootstrap.rank() == 0;
  if (is_first) context.log.info("{}", phases_line(context.phases));
  const auto startup = context.phases.seconds();

  Answers answers(context.clock, {.rows = job.answers,
                                  .tokenizer = job.tokenizer.get(),
                                  .stop_strings = job.stop_strings,
                                  .max_time = job.max_time,
                                  .show = show_on_stdout(command, job),
                                  .as_made = job.answers_as_made});
  LOCKSTEP_TRY_VOID(run_session(context, plan, monitor, *session, observation.timed(*loaded.engine),
                                [&] { submit_all(*session, job, answers, observation); }));

  context.phases.enter("report");
  LOCKSTEP_TRY(RunFacts facts, facts_of(context, plan, loaded, communicator, startup));
  LOCKSTEP_TRY(facts.group, observation.gather());
  if (is_first) {
    adopt_all(job, answers);
    LOCKSTEP_TRY_VOID(check_answers(answers));
    LOCKSTEP_TRY_VOID(write_report(command, context, job, plan, answers, facts));
  }
  return observation.write(facts.group, facts.memory, answers.tokens());
}

}  // namespace lockstep::launcher
