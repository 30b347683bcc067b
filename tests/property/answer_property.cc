// Random questions to a server about random datasets: no sample of a coded answer is further from the
// original than the answer states, and where nothing may be lost, the answer of every encoding is that of the
// directory bit by bit. Exit code 0: all promises were kept; 1: one was not, and a line says how to reproduce
// it; 2: bad usage.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/base/memory.h"
#include "quarry/base/missing.h"
#include "quarry/client.h"
#include "quarry/client_grpc.h"
#include "quarry/command_line/command_line.h"
#include "server/grpc/listener.h"
#include "tests/property/patch_check.h"
#include "tests/property/random_dataset.h"
#include "tests/testing/temporary_folder.h"

namespace quarry::testing {
namespace {

namespace fs = std::filesystem;

using Broken = std::optional<std::string>;
using client::LevelSamples;

constexpr int kQuestions = 12;  ///< questions to each dataset

struct Options {
  double samples = std::getenv("QUARRY_TEST_FULL") != nullptr ? 1e8 : 6e6;
  std::uint64_t seed = SeedFromEnvironment();
  std::optional<std::uint64_t> dataset;
  std::int64_t max_volume = 1 << 19;
};

/// A question, and what its coding may lose.
struct Question {
  query::ReadRequest request;
  query::Recode recode;

  /// Whether the answer has the samples of the directory.
  bool exact() const {
    return recode == query::Recode{} && !std::holds_alternative<query::WithinError>(request.target);
  }
  std::string text() const;
};

std::string Question::text() const {
  std::string target;
  if (const auto* level = std::get_if<query::AtLevel>(&request.target))
    target = fmt::format("level {}", level->level);
  if (const auto* within = std::get_if<query::WithinError>(&request.target))
    target = fmt::format("within {}", within->error);
  if (const auto* stride = std::get_if<query::AtStride>(&request.target))
    target = "stride " + quarry::ToString(stride->stride);
  const std::string values =
      request.values ? fmt::format(", values {} to {}", request.values->low, request.values->high) : "";
  return fmt::format("box {}, {}, from level {}, layers {} to {}, recode {}x {}{}",
                     quarry::ToString(*request.box), target, request.first_level.value_or(-1),
                     request.first_layer.value_or(-1), request.layer.value_or(-1), recode.factor,
                     recode.error, values);
}

/// Volumes, planes, lines and samples.
Box RandomBox(const Index3& dims, Random* random) {
  Box box{{}, dims};
  for (std::size_t a = 0; a < 3; ++a) {
    const auto size = static_cast<std::uint64_t>(dims[a]);
    if (random->OneIn(2)) continue;
    box.begin[a] = static_cast<std::int64_t>(random->Below(size));
    const auto rest = size - static_cast<std::uint64_t>(box.begin[a]);
    box.end[a] = box.begin[a] + 1 + (random->OneIn(2) ? 0 : static_cast<std::int64_t>(random->Below(rest)));
  }
  return box;
}

/// A tenth to a thousand times the tolerance, or up to the range of the samples.
double RandomError(const RandomDataset& dataset, Random* random) {
  const double tolerance = ToleranceOf(dataset.field().bound) * std::pow(10, 4 * random->Fraction() - 1);
  const double part = dataset.range * std::pow(10, -6 * random->Fraction());
  return std::min(random->OneIn(2) ? tolerance : part, std::numeric_limits<double>::max());
}

Question RandomQuestion(const RandomDataset& dataset, Random* random) {
  Question question;
  query::ReadRequest& request = question.request;
  request.field = dataset.field().name;
  request.box = RandomBox(dataset.grid().dims, random);
  const int levels = dataset.grid().levels;
  const int level = random->OneIn(2) ? 0 : random->Between(0, levels - 1);
  request.target = query::AtLevel{level};
  const auto kind = random->Below(6);
  if (kind == 0)
    request.target = query::AtStride{{random->Between(1, 5), random->Between(1, 5), random->Between(1, 5)}};
  if (kind == 1) request.target = query::WithinError{RandomError(dataset, random)};
  if (kind > 1 && random->OneIn(2)) request.first_level = random->Between(level, levels - 1);
  if (kind != 1) {
    request.layer = random->Between(0, dataset.field().layers() - 1);
    if (kind != 0 && random->OneIn(2)) request.first_layer = random->Between(0, *request.layer);
    const auto wish = random->Below(3);
    if (wish == 0) question.recode.factor = 1 + 9 * random->Fraction();
    if (wish == 1) question.recode.error = RandomError(dataset, random);
  }
  // Patches without such values are left out.
  if (random->OneIn(6)) {
    const double value = dataset.range * random->Fraction();
    request.values = query::Bounds{-value, value};
  }
  return question;
}

/// A server in this process.
class TestServer {
 public:
  explicit TestServer(const fs::path& root)
      : service_({root, {}, root}, {std::uint64_t{256} << 20, 2}, &operations_) {
    client::EnableGrpc();
    server::ListenOptions options;
    options.address = "127.0.0.1:0";
    listener_ = *server::Listener::Start(options, &service_);
  }

  std::string Target(const std::string& name) const {
    return fmt::format("grpc://{}/{}", listener_->address(), name);
  }

 private:
  server::Operations operations_;
  server::Service service_;
  std::unique_ptr<server::Listener> listener_;
};

using Answer = Result<std::vector<LevelSamples>>;

Answer Ask(const client::Dataset& dataset, const query::ReadRequest& request) {
  std::vector<LevelSamples> levels;
  QUARRY_RETURN_IF_ERROR(dataset.ReadLevels(request, [&](LevelSamples* level, const client::ReadCost&) {
    levels.push_back(std::move(*level));
    return Status::Ok();
  }));
  return levels;
}

/// Calls visit(i, place, original number) for every sample of a level until it returns false.
template <typename Visit>
void ForEachSample(const LevelSamples& level, const Index3& dims, Visit visit) {
  const auto& [begin, end] = level.extent;
  const Index3& step = level.spacing;
  std::size_t i = 0;
  for (std::int64_t z = begin[2]; z < end[2]; ++z) {
    for (std::int64_t y = begin[1]; y < end[1]; ++y) {
      for (std::int64_t x = begin[0]; x < end[0]; ++x, ++i) {
        const std::int64_t original = x * step[0] + dims[0] * (y * step[1] + dims[1] * (z * step[2]));
        if (!visit(i, Index3{x, y, z}, static_cast<std::size_t>(original))) return;
      }
    }
  }
}

/// Checks the error that an answer states.
/// @param stored  the same level of the directory
Broken CheckStated(const Question& question, const LevelSamples& stored, const LevelSamples& answer) {
  constexpr double kRounding = 1 + 1e-12;
  double least = stored.max_error;
  double most = stored.max_error;
  if (question.recode.factor > 1) most *= question.recode.factor;
  most += question.recode.error;
  if (const auto* within = std::get_if<query::WithinError>(&question.request.target)) {
    most = answer.last() ? within->error : most + within->error;
  } else if (!question.exact()) {
    most *= kRounding;
  }
  if (answer.max_error >= least && answer.max_error <= most) return std::nullopt;
  return fmt::format("the error {} is stated, not from {} to {}", answer.max_error, least, most);
}

/// Checks the samples of a level.
/// @param stored  the same level of the directory
template <typename T>
Broken CheckSamples(const RandomDataset& dataset, bool exact, const LevelSamples& stored,
                    const LevelSamples& answer) {
  const FieldDescription& field = dataset.field();
  const T* const originals = reinterpret_cast<const T*>(dataset.original.samples.data());
  const std::span<const T> read = stored.SamplesAs<T>();
  const std::span<const T> samples = answer.SamplesAs<T>();
  const bool lossless =
      field.lossless() && answer.layer + 1 == field.layers() && (exact || answer.max_error == 0);
  Broken broken;
  ForEachSample(answer, dataset.grid().dims, [&](std::size_t i, const Index3& place, std::size_t number) {
    const T sample = samples[i];
    const T original = originals[number];
    const Box here{place, {place[0] + 1, place[1] + 1, place[2] + 1}};
    const bool left_out =
        std::ranges::any_of(answer.left_out, [&](const Box& gap) { return gap.Contains(here); });
    const bool missing = IsMissing(original, dataset.original.fill);
    const double error = std::abs(static_cast<double>(sample) - static_cast<double>(original));
    const char* what = nullptr;
    if (exact && SampleBits(sample) != SampleBits(read[i])) {
      what = "is not that of the directory";
    } else if (left_out) {
      return true;
    } else if ((missing || lossless) && SampleBits(sample) != SampleBits(original)) {
      what = missing ? "is missing, and has changed" : "is not exact";
    } else if (!missing && !lossless && !(error <= answer.max_error)) {  // a NaN breaks the promise
      what = "is beyond the error";
    } else if (!missing && !IsKept(field.coder, read[i], sample)) {
      what = "has lost a zero or a sign";
    }
    if (what != nullptr)
      broken = fmt::format("sample {} of level {} in layer {} {}: {} was {}, stored as {}, error {}",
                           quarry::ToString(place), answer.level, answer.layer, what, sample, original,
                           read[i], answer.max_error);
    return what == nullptr;
  });
  return broken;
}

class Run {
 public:
  explicit Run(const Options& options) : options_(options), server_(folder_.path()) {}

  bool Go() {
    std::uint64_t number = 0;
    while (static_cast<double>(samples_) < options_.samples) {
      if (!CheckDataset(number++)) return false;
    }
    for (const auto& [coder, samples] : by_coder_) fmt::print("{}: {} samples\n", coder, samples);
    fmt::print(
        "{} samples of {} datasets, {} questions, {} of them without an answer, seed {}: every promise was "
        "kept\n",
        samples_, number, questions_, unanswered_, options_.seed);
    return true;
  }

  /// Checks the answers about one dataset.
  bool CheckDataset(std::uint64_t number) {
    Random random(options_.seed * 0x2545f4914f6cdd1du + number);
    random.Next();
    const PatchCoder& coder = *FieldCoders()[number % FieldCoders().size()];
    const RandomDataset dataset = MakeRandomDataset(coder, options_.max_volume, &random);
    const std::string name = fmt::format("d{}", number);
    const fs::path path = folder_.path() / (name + ".quarry");
    if (const Status status = WriteDataset(dataset, path); !status.ok())
      return Report(number, dataset, "it is not written: " + status.message());
    const auto local = client::Dataset::Open(path.string());
    if (!local.ok()) return Report(number, dataset, local.status().message());
    for (int i = 0; i < kQuestions; ++i) {
      const Question question = RandomQuestion(dataset, &random);
      if (const Broken broken = CheckAnswers(dataset, **local, server_.Target(name), question))
        return Report(number, dataset, fmt::format("{} ({})", *broken, question.text()));
    }
    fs::remove_all(path);
    return true;
  }

 private:
  bool Report(std::uint64_t number, const RandomDataset& dataset, const std::string& broken) const {
    fmt::print("BROKEN: {} ({}). Again: answer_property --seed {} --dataset {} --max-volume {}\n", broken,
               dataset.text, options_.seed, number, options_.max_volume);
    return false;
  }

  /// Checks the coded answer, and where nothing may be lost those of the other encodings too.
  Broken CheckAnswers(const RandomDataset& dataset, const client::Dataset& local, const std::string& target,
                      const Question& question) {
    const auto stored = Ask(local, question.request);
    ++questions_;
    unanswered_ += stored.ok() ? 0 : 1;
    // No level may be within the error.
    if (!stored.ok() && stored.status().code() != StatusCode::kNotFound) return stored.status().message();
    for (const auto& [name, encoding] :
         {std::pair("coded", client::Encoding::kCoded), std::pair("samples", client::Encoding::kSamples),
          std::pair("patches", client::Encoding::kPatches)}) {
      const bool coded = encoding == client::Encoding::kCoded;
      if (!coded && !question.exact()) break;
      const auto remote = client::Dataset::Open(
          target, {.encoding = encoding, .recode = coded ? question.recode : query::Recode()});
      if (!remote.ok()) return remote.status().message();
      const auto answer = Ask(**remote, question.request);
      if (const Broken broken = CheckAnswer(dataset, question, stored, answer))
        return fmt::format("{}: {}", name, *broken);
      if (coded && answer.ok()) Count(dataset, *answer);
    }
    return std::nullopt;
  }

  static Broken CheckAnswer(const RandomDataset& dataset, const Question& question, const Answer& stored,
                            const Answer& answer) {
    if (stored.status().code() != answer.status().code())
      return fmt::format("\"{}\" instead of \"{}\"", answer.status().message(), stored.status().message());
    if (!stored.ok()) return std::nullopt;
    if (stored->size() != answer->size()) return fmt::format("{} levels came", answer->size());
    for (std::size_t l = 0; l < stored->size(); ++l) {
      if (Broken broken = CheckLevel(dataset, question, (*stored)[l], (*answer)[l])) return broken;
    }
    return std::nullopt;
  }

  static Broken CheckLevel(const RandomDataset& dataset, const Question& question, const LevelSamples& stored,
                           const LevelSamples& answer) {
    if (answer.extent != stored.extent || answer.level != stored.level || answer.layer != stored.layer)
      return fmt::format("level {} in layer {} came as {}", answer.level, answer.layer,
                         quarry::ToString(answer.extent));
    if (Broken broken = CheckStated(question, stored, answer)) return broken;
    return DispatchType(dataset.field().type, [&]<typename T>(T) {
      return CheckSamples<T>(dataset, question.exact(), stored, answer);
    });
  }

  void Count(const RandomDataset& dataset, const std::vector<LevelSamples>& levels) {
    for (const LevelSamples& level : levels) {
      const auto volume = static_cast<std::uint64_t>(level.extent.volume());
      samples_ += volume;
      by_coder_[std::string(Name(dataset.field().coder))] += volume;
    }
  }

  const Options& options_;
  TemporaryFolder folder_;
  TestServer server_;
  std::uint64_t samples_ = 0;
  std::uint64_t questions_ = 0;
  std::uint64_t unanswered_ = 0;
  std::map<std::string, std::uint64_t> by_coder_;
};

int Main(int argc, char** argv) {
  Options options;
  command_line::Parser app("answer_property",
                           "Random questions, answered in coded form: is every promise kept?");
  app.AddOption("--samples", &options.samples, "stop after so many samples; more with QUARRY_TEST_FULL=1")
      .Positive();
  app.AddOption("--seed", &options.seed, "of everything that is random");
  app.AddOption("--dataset", &options.dataset, "only the dataset with this number");
  app.AddOption("--max-volume", &options.max_volume, "largest grid, in samples").Positive();
  return RunProgram(&app, argc, argv, [&]() -> Result<int> {
    KeepFreedMemory();
    Run run(options);
    fmt::print("seed {}\n", options.seed);
    return (options.dataset ? run.CheckDataset(*options.dataset) : run.Go()) ? 0 : 1;
  });
}

}  // namespace
}  // namespace quarry::testing

int main(int argc, char** argv) { return quarry::testing::Main(argc, argv); }
