// Random patches through every coder: no decoded sample is further from its original than promised. Exit code
// 0: all promises were kept; 1: one was not, and a line says how to reproduce it; 2: bad usage.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "quarry/base/memory.h"
#include "quarry/box.h"
#include "quarry/command_line/command_line.h"
#include "tests/property/patch_check.h"
#include "tests/testing/generated_patch.h"

namespace quarry::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  double samples = 1e7;
  double minutes = 0;
  std::uint64_t seed = SeedFromEnvironment();
  std::string coder;
  bool layers = false;
  std::optional<std::uint64_t> patch;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::int64_t max_volume = std::int64_t{1} << 21;
};

DataType RandomType(const PatchCoder& coder, Random* random) {
  while (true) {
    // Floats twice as often as integers.
    const DataType type =
        random->OneIn(2) ? kAllTypes[random->Below(2)] : kAllTypes[random->Below(std::size(kAllTypes))];
    if (coder.Supports(type)) return type;
  }
}

/// Mostly 1e-1 to 1e-12 of the range, evenly in the logarithm.
double RandomTolerance(double range, Random* random) {
  const double base = range > 0 ? range : 1;
  switch (random->Below(24)) {
    case 0:
      return 0;
    case 1:
      return std::min(base * (1 + 10 * random->Fraction()), std::numeric_limits<double>::max());
    case 2: {
      constexpr double kOdd[] = {std::numeric_limits<double>::max(),
                                 std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::denorm_min(),
                                 std::numeric_limits<double>::min(),
                                 std::numeric_limits<float>::denorm_min(),
                                 std::numeric_limits<float>::max(),
                                 0.5,
                                 1.0,
                                 2.0};
      return kOdd[random->Below(std::size(kOdd))];
    }
    case 3:  // a power of two, like the distance of numbers on a lattice
      return std::ldexp(1.0, std::ilogb(base) - random->Between(0, 30));
    default:
      return base * std::pow(10, -1 - 11 * random->Fraction());
  }
}

/// Mostly 1e-1 to 1e-12 of each sample.
double RandomRatio(Random* random) {
  if (random->OneIn(24)) return 0;
  return random->OneIn(12) ? random->Fraction() : std::pow(10, -1 - 11 * random->Fraction());
}

/// Makes some samples zero, and some the negative zero of floats.
void PutZeros(DataType type, Random* random, Bytes* samples) {
  DispatchType(type, [&]<typename T>(T) {
    const std::uint64_t one_in = 1 + random->Below(20);
    T* begin = reinterpret_cast<T*>(samples->data());
    std::for_each(begin, begin + samples->size() / sizeof(T), [&](T& sample) {
      if (random->OneIn(one_in)) sample = sample > 0 ? T(0) : static_cast<T>(T(0) * T(-1));
    });
  });
}

/// Makes the patch one that does not depend on some axes: the samples of a line become the first valid one,
/// and in every other patch the missing ones those of the first plane.
void RepeatPlanes(const PatchLayout& layout, Random* random, GeneratedPatch* patch) {
  const Index3& shape = layout.shape;
  const std::size_t size = SizeOf(layout.type);
  const std::uint64_t axes = 1 + random->Below(7);
  const bool whole = random->OneIn(2);
  std::vector<std::uint8_t> valid;
  ClassifySamples(layout.type, patch->samples, patch->fill, &valid);
  std::vector<std::size_t> first(valid.size(), valid.size());  // the place of each sample of the plane
  std::size_t i = 0;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[0]; ++x, ++i) {
        if (!whole && valid[i] == 0) continue;
        std::size_t& from = first[static_cast<std::size_t>(
            ((axes & 1) != 0 ? 0 : x) +
            shape[0] * (((axes & 2) != 0 ? 0 : y) + shape[1] * ((axes & 4) != 0 ? 0 : z)))];
        if (from == valid.size()) from = i;
        std::copy_n(patch->samples.data() + from * size, size, patch->samples.data() + i * size);
      }
    }
  }
}

/// Moves samples by up to a part of the tolerance, or by a little more than it.
void AddNoise(DataType type, double tolerance, Random* random, Bytes* samples) {
  const double most = tolerance * 1.1 * random->Fraction();
  DispatchNarrow(type, [&]<typename T>(T) {
    T* begin = reinterpret_cast<T*>(samples->data());
    std::for_each(begin, begin + samples->size() / sizeof(T), [&](T& sample) {
      const double moved = static_cast<double>(sample) + most * (2 * random->Fraction() - 1);
      constexpr double kMost = static_cast<double>(std::numeric_limits<T>::max());
      constexpr double kLeast = static_cast<double>(std::numeric_limits<T>::lowest());
      if (moved >= kLeast && moved <= kMost) sample = static_cast<T>(moved);
    });
  });
}

/// A random number of layers where the coder has several, for every patch or for one of three: each at least
/// a hundredth below the one before.
std::vector<double> RandomTolerances(const PatchCoder& coder, double range, bool for_every_patch,
                                     Random* random) {
  std::vector<double> tolerances = {coder.traits().bound_is_relative ? RandomRatio(random)
                                                                     : RandomTolerance(range, random)};
  const std::size_t layers = for_every_patch || random->OneIn(3)
                                 ? 1 + random->Below(static_cast<std::uint64_t>(coder.traits().most_layers))
                                 : 1;
  while (tolerances.size() < layers) {
    const double next =
        random->OneIn(8) ? 0 : tolerances.back() * std::pow(10, -3 * random->Fraction()) * 0.99;
    if (!(next < tolerances.back())) break;  // after 0, and after infinity
    tolerances.push_back(next);
  }
  return tolerances;
}

struct Count {
  std::uint64_t patches = 0;
  std::uint64_t samples = 0;
  std::uint64_t samples_in_layers = 0;  // in more than one
};

class Run {
 public:
  explicit Run(const Options& options)
      : options_(options), coders_(FieldCoders().begin(), FieldCoders().end()) {
    if (options.coder.empty()) return;
    std::erase_if(coders_, [&](const PatchCoder* coder) { return coder->name() != options.coder; });
  }

  bool HasCoders() const { return !coders_.empty(); }

  bool Go() {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < options_.threads; ++t) threads.emplace_back([this] { Work(); });
    Report();
    for (std::thread& thread : threads) thread.join();
    if (failure_.empty()) {
      for (const auto& [coder, count] : counts_)
        fmt::print("{}: {} patches, {} samples, {} of them in several layers\n", coder, count.patches,
                   count.samples, count.samples_in_layers);
      fmt::print("{} samples in {:.1f} s, seed {}: every promise was kept\n", samples_.load(), Seconds(),
                 options_.seed);
    }
    return failure_.empty();
  }

  /// Repeats one patch.
  bool Repeat(std::uint64_t number) {
    PatchChecker checker;
    GeneratedPatch patch;
    CheckOne(number, true, &checker, &patch);
    return failure_.empty();
  }

 private:
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  bool Done() const {
    if (failed_) return true;
    return options_.minutes > 0 ? Seconds() >= 60 * options_.minutes
                                : static_cast<double>(samples_.load()) >= options_.samples;
  }

  void Work() {
    PatchChecker checker;
    GeneratedPatch patch;
    while (!Done()) CheckOne(next_++, false, &checker, &patch);
    --working_;
  }

  void CheckOne(std::uint64_t number, bool verbose, PatchChecker* checker, GeneratedPatch* patch) {
    Random random(options_.seed * 0x2545f4914f6cdd1du + number);
    random.Next();
    // Each coder gets the same patches as far as their types allow, in a run of one coder or of all coders.
    const PatchCoder& coder = *coders_[number % coders_.size()];
    const PatchSpec spec = RandomSpec(RandomType(coder, &random), options_.max_volume, &random);
    Generate(spec, patch);
    if (coder.traits().has_safeguards && random.OneIn(2))
      PutZeros(spec.layout.type, &random, &patch->samples);
    const bool repeats = random.OneIn(5);
    if (repeats) RepeatPlanes(spec.layout, &random, patch);
    const std::vector<double> tolerances =
        RandomTolerances(coder, ValueRange(spec.layout.type, *patch), options_.layers, &random);
    if (repeats && random.OneIn(2)) AddNoise(spec.layout.type, tolerances.back(), &random, &patch->samples);
    const std::string text = fmt::format("{}, {}{}, tolerance {}", coder.name(), ToString(spec),
                                         repeats ? ", repeats" : "", fmt::join(tolerances, ", "));
    if (verbose) fmt::print("{}\n", text);
    const std::optional<std::string> broken =
        checker->Check({&coder, spec.layout, patch, tolerances}, random.Next());
    const std::scoped_lock lock(mutex_);
    if (broken && failure_.empty()) {
      failure_ = *broken;
      failed_ = true;
      fmt::print("BROKEN: {} ({}). Again: coder_property --coder {} --seed {} --patch {} --max-volume {}{}\n",
                 *broken, text, coder.name(), options_.seed, number, options_.max_volume,
                 options_.layers ? " --layers" : "");
    }
    Count& count = counts_[std::string(coder.name())];
    ++count.patches;
    const auto volume = static_cast<std::uint64_t>(Volume(spec.layout.shape));
    count.samples += volume;
    if (tolerances.size() > 1) count.samples_in_layers += volume;
    samples_ += volume;
  }

  /// Prints a line every ten seconds while threads are at work.
  void Report() {
    Clock::time_point next = start_ + std::chrono::seconds(10);
    while (working_ > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (Clock::now() < next) continue;
      next += std::chrono::seconds(10);
      const double samples = static_cast<double>(samples_.load());
      fmt::print("{:.0f} s: {} patches, {:.3g} samples, {:.3g} a second\n", Seconds(), next_.load(), samples,
                 samples / Seconds());
      std::fflush(stdout);
    }
  }

  const Options& options_;
  std::vector<const PatchCoder*> coders_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<std::uint64_t> next_ = 0;
  std::atomic<std::uint64_t> samples_ = 0;
  std::atomic<unsigned> working_ = options_.threads;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;  // guards the members below
  std::string failure_;
  std::map<std::string, Count> counts_;
};

int Main(int argc, char** argv) {
  Options options;
  command_line::Parser app("coder_property", "Random patches through every coder: is every promise kept?");
  app.AddOption("--samples", &options.samples, "stop after so many samples").Positive();
  app.AddOption("--minutes", &options.minutes, "stop after so many minutes instead");
  app.AddOption("--seed", &options.seed, "of everything that is random");
  app.AddOption("--coder", &options.coder, "only this one");
  app.AddFlag(
      "--layers", &options.layers,
      "every patch has a random number of layers; otherwise one of three, and the others a single one");
  app.AddOption("--patch", &options.patch,
                "only the patch with this number; needs the --coder of the message");
  app.AddOption("--threads", &options.threads, "that check at a time").Between(1, 1024);
  app.AddOption("--max-volume", &options.max_volume, "largest patch, in samples").Positive();
  return RunProgram(&app, argc, argv, [&]() -> Result<int> {
    KeepFreedMemory();
    Run run(options);
    if (!run.HasCoders()) return InvalidArgument("there is no coder \"{}\"", options.coder);
    fmt::print("seed {}, {} threads\n", options.seed, options.threads);
    return (options.patch ? run.Repeat(*options.patch) : run.Go()) ? 0 : 1;
  });
}

}  // namespace
}  // namespace quarry::testing

int main(int argc, char** argv) { return quarry::testing::Main(argc, argv); }
