// The perplexity of a text: 04_scoring MODEL
#include <lockstep/engine.h>

#include <cmath>
#include <cstdio>

using namespace lockstep;

Result<void> run(const char* directory) {
  LOCKSTEP_TRY(const auto group, Group::threads(2));
  LOCKSTEP_TRY(const Model model, Model::open(directory));
  LOCKSTEP_TRY(const auto engine, Engine::open(*group, model, {.capacity = 64, .scoring = Scoring::kOn}));
  LOCKSTEP_TRY(const std::vector<int32_t> ids, model.encode("The capital of France is Paris."));
  LOCKSTEP_TRY(const std::vector<TokenScore> scores, engine->score(ids));
  double sum = 0.0;
  for (const TokenScore& score : scores) sum -= score.logprob.value_or(0.0f);
  std::printf("perplexity %.3f\n", std::exp(sum / static_cast<double>(scores.size() - 1)));
  return engine->close();
}

int main(int, char** argv) { return run(argv[1]).has_value() ? 0 : 1; }
