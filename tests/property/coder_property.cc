// Random patches through every coder: no sample that comes back is further from its original than promised.
// Exit code 0: all promises were kept; 1: one was not, and a line says how to get there again; 2: bad usage.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
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
#include "quarry/geometry/box.h"
#include "tests/property/patch_check.h"
#include "tests/testing/generated_patch.h"

namespace quarry::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  double samples = 1e7;
  double minutes = 0;
  std::uint64_t seed = 1;
  std::string coder;
  std::optional<std::uint64_t> patch;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::int64_t max_volume = std::int64_t{1} << 21;
};

/// Coders that fields may name.
std::vector<const PatchCoder*> AllCoders() {
  std::vector<const PatchCoder*> coders;
  for (const CoderId id : {CoderId::kWaveletZfp, CoderId::kInterpolate, CoderId::kLossless}) {
    if (const PatchCoder* coder = FindCoder(id)) coders.push_back(coder);
  }
  return coders;
}

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
    case 3:  // a power of two, as is the distance of numbers on a lattice
      return std::ldexp(1.0, std::ilogb(base) - random->Between(0, 30));
    default:
      return base * std::pow(10, -1 - 11 * random->Fraction());
  }
}

struct Count {
  std::uint64_t patches = 0;
  std::uint64_t samples = 0;
};

class Run {
 public:
  explicit Run(const Options& options) : options_(options), coders_(AllCoders()) {
    if (options.coder.empty()) return;
    std::erase_if(coders_, [&](const PatchCoder* coder) { return Name(coder->id()) != options.coder; });
  }

  bool HasCoders() const { return !coders_.empty(); }

  bool Go() {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < options_.threads; ++t) threads.emplace_back([this] { Work(); });
    Report();
    for (std::thread& thread : threads) thread.join();
    if (failure_.empty()) {
      for (const auto& [coder, count] : counts_)
        fmt::print("{}: {} patches, {} samples\n", coder, count.patches, count.samples);
      fmt::print("{} samples in {:.1f} s, seed {}: every promise was kept\n", samples_.load(), Seconds(),
                 options_.seed);
    }
    return failure_.empty();
  }

  /// One patch again.
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
    // Each coder gets the same patches as far as their types allow, in a run of one coder or of all.
    const PatchCoder& coder = *coders_[number % coders_.size()];
    const PatchSpec spec = RandomSpec(RandomType(coder, &random), options_.max_volume, &random);
    Generate(spec, patch);
    const double tolerance = RandomTolerance(ValueRange(spec.layout.type, *patch), &random);
    const std::string text = fmt::format("{}, {}, tolerance {}", Name(coder.id()), ToString(spec), tolerance);
    if (verbose) fmt::print("{}\n", text);
    const std::optional<std::string> broken =
        checker->Check({&coder, spec.layout, patch, tolerance}, random.Next());
    const std::scoped_lock lock(mutex_);
    if (broken && failure_.empty()) {
      failure_ = *broken;
      failed_ = true;
      fmt::print("BROKEN: {} ({}). Again: coder_property --coder {} --seed {} --patch {} --max-volume {}\n",
                 *broken, text, Name(coder.id()), options_.seed, number, options_.max_volume);
    }
    Count& count = counts_[std::string(Name(coder.id()))];
    ++count.patches;
    const auto volume = static_cast<std::uint64_t>(Volume(spec.layout.shape));
    count.samples += volume;
    samples_ += volume;
  }

  /// A line every ten seconds while threads are at work.
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
  std::mutex mutex_;  // of those below
  std::string failure_;
  std::map<std::string, Count> counts_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Random patches through every coder: is every promise kept?");
  app.add_option("--samples", options.samples, "stop after so many samples")->check(CLI::PositiveNumber);
  app.add_option("--minutes", options.minutes, "stop after so many minutes instead");
  app.add_option("--seed", options.seed, "of everything that is random");
  app.add_option("--coder", options.coder, "only this one");
  app.add_option("--patch", options.patch,
                 "only the patch with this number; needs the --coder of the message");
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  app.add_option("--max-volume", options.max_volume, "largest patch, in samples")->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return error.get_exit_code() == 0 ? 0 : 2;
  }
  KeepFreedMemory();
  Run run(options);
  if (!run.HasCoders()) {
    fmt::print(stderr, "coder_property: no coder \"{}\"\n", options.coder);
    return 2;
  }
  fmt::print("seed {}, {} threads\n", options.seed, options.threads);
  return (options.patch ? run.Repeat(*options.patch) : run.Go()) ? 0 : 1;
}

}  // namespace
}  // namespace quarry::testing

int main(int argc, char** argv) { return quarry::testing::Main(argc, argv); }
