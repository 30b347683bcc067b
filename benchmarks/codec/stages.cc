#include "benchmarks/codec/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "quarry/codec/interpolate/kernels.h"
#include "quarry/codec/interpolate/level_bands.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::bench {
namespace {

using interpolate::Kernels;

enum class Stage : std::size_t { kContexts, kRans, kReconstruct, kPredict, kMask, kMerge, kQuantise, kFold };
constexpr std::array kStageNames = {"contexts: activity, tables or bins",
                                    "rANS",
                                    "reconstruct: low bits, samples",
                                    "predict",
                                    "compact and expand, with a mask",
                                    "merge bands",
                                    "quantise",
                                    "fold to symbols"};
constexpr std::size_t kStages = kStageNames.size();

/// Some calls take less time than a system clock.
std::uint64_t Ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

double NanosecondsPerTick() {
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t first = Ticks();
  std::chrono::duration<double, std::nano> passed{};
  while (passed < std::chrono::milliseconds(50)) passed = std::chrono::steady_clock::now() - begin;
  return passed.count() / static_cast<double>(Ticks() - first);
}

/// The ticks that a timer counts when nothing lies between its two looks at the clock.
double TicksOfNothing() {
  constexpr int kLooks = 100000;
  std::uint64_t sum = 0;
  for (int i = 0; i < kLooks; ++i) {
    const std::uint64_t begin = Ticks();
    sum += Ticks() - begin;
  }
  return static_cast<double>(sum) / kLooks;
}

struct Counter {
  std::uint64_t ticks = 0;
  std::uint64_t calls = 0;
};
std::array<Counter, kStages> counters;
const Kernels* plain = nullptr;

template <Stage kStage, auto kKernel>
struct Timed;

/// A kernel of `plain`, timed.
template <Stage kStage, typename R, typename... Args, R (*Kernels::*kKernel)(Args...)>
struct Timed<kStage, kKernel> {
  struct Timer {
    const std::uint64_t begin = Ticks();
    ~Timer() {
      Counter& counter = counters[static_cast<std::size_t>(kStage)];
      counter.ticks += Ticks() - begin;
      ++counter.calls;
    }
  };
  static R Call(Args... args) {
    const Timer timer;
    return (plain->*kKernel)(args...);
  }
};

template <Stage kStage, auto... kKernels>
void Time(Kernels* kernels) {
  ((kernels->*kKernels = Timed<kStage, kKernels>::Call), ...);
}

Kernels TimedKernels() {
  Kernels timed = *plain;
  Time<Stage::kContexts, &Kernels::activity, &Kernels::classify, &Kernels::fine_bins>(&timed);
  Time<Stage::kRans, &Kernels::decode_rans>(&timed);
  Time<Stage::kReconstruct, &Kernels::reconstruct_f32, &Kernels::reconstruct_f64>(&timed);
  Time<Stage::kPredict, &Kernels::predict_f32, &Kernels::predict_f64>(&timed);
  Time<Stage::kMask, &Kernels::compact, &Kernels::expand>(&timed);
  Time<Stage::kMerge, &Kernels::interleave_16, &Kernels::interleave_f32, &Kernels::interleave_f64>(&timed);
  Time<Stage::kQuantise, &Kernels::quantise_f32, &Kernels::quantise_f64>(&timed);
  Time<Stage::kFold, &Kernels::fold>(&timed);
  return timed;
}

/// Nanoseconds of a patch, or of several.
struct Split {
  std::array<double, kStages> stages{};
  double in_stages = 0;
  double all = 0;  ///< without timers

  void Add(const Split& other) {
    for (std::size_t s = 0; s < kStages; ++s) stages[s] += other.stages[s];
    in_stages += other.in_stages;
    all += other.all;
  }
};

/// Times work with plain and with timed kernels.
class Stopwatch {
 public:
  /// Keeps the shorter one of `best` and this time. @param work  codes a patch
  template <typename Work>
  Status Run(const Kernels& kernels, Work work, Split* best) const {
    plain = &kernels;
    interpolate::SelectKernels(kernels);
    const std::uint64_t begin = Ticks();
    QUARRY_RETURN_IF_ERROR(work());
    const double all = static_cast<double>(Ticks() - begin) * tick_;
    if (best->all == 0 || all < best->all) best->all = all;

    const Kernels timed = TimedKernels();
    interpolate::SelectKernels(timed);
    counters = {};
    const Status status = work();
    interpolate::SelectKernels(kernels);
    QUARRY_RETURN_IF_ERROR(status);
    Split split;
    for (std::size_t s = 0; s < kStages; ++s) {
      const auto calls = static_cast<double>(counters[s].calls);
      split.stages[s] = std::max(0.0, static_cast<double>(counters[s].ticks) - calls * nothing_) * tick_;
      split.in_stages += split.stages[s];
    }
    split.all = best->all;
    if (best->in_stages == 0 || split.in_stages < best->in_stages) *best = split;
    return Status::Ok();
  }

 private:
  double tick_ = NanosecondsPerTick();
  double nothing_ = TicksOfNothing();
};

/// Validity of every level, the finest first; empty ones where nothing is missing.
std::vector<std::vector<std::uint8_t>> ValidityOfLevels(const Patch& patch) {
  std::vector<std::vector<std::uint8_t>> levels = {patch.validity};
  for (int level = 1; level < patch.layout.levels; ++level) {
    const Index3 finer = LevelShape(patch.layout.shape, level - 1);
    std::vector<std::uint8_t> coarse(patch.validity.empty() ? 0 : interpolate::BandSize(finer, 0));
    if (!coarse.empty()) interpolate::ExtractBand(levels.back().data(), finer, 0, coarse.data());
    levels.push_back(std::move(coarse));
  }
  return levels;
}

/// Both directions of a patch, with every instruction set in turn.
class StagedPatch {
 public:
  StagedPatch(const PatchCoder& coder, const Patch& patch, double tolerance, std::size_t sets)
      : decode(sets),
        encode(sets),
        coder_(coder),
        patch_(patch),
        tolerance_(tolerance),
        validity_(ValidityOfLevels(patch)) {}

  Status RunPass(const Stopwatch& watch, const std::vector<const Kernels*>& sets) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      QUARRY_RETURN_IF_ERROR(watch.Run(
          *sets[i], [this] { return Encode(); }, &encode[i]));
    }
    for (std::size_t i = 0; i < sets.size(); ++i) {
      QUARRY_RETURN_IF_ERROR(watch.Run(
          *sets[i], [this] { return Decode(); }, &decode[i]));
    }
    return Status::Ok();
  }

  std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    for (const Bytes& level : payloads_) bytes += level.size();
    return bytes;
  }

  std::vector<Split> decode;
  std::vector<Split> encode;

 private:
  Status Encode() {
    QUARRY_ASSIGN_OR_RETURN(CodedPatch coded, coder_.Encode({patch_.layout, patch_.harmless(),
                                                             patch_.validity, std::array{tolerance_}}));
    payloads_ = std::move(coded.levels);
    return Status::Ok();
  }

  Status Decode() const {
    const std::unique_ptr<PatchDecoder> decoder = coder_.NewDecoder(patch_.layout);
    for (auto level = static_cast<std::size_t>(patch_.layout.levels); level-- > 0;)
      QUARRY_RETURN_IF_ERROR(decoder->Advance({payloads_[level], validity_[level]}));
    return Status::Ok();
  }

  const PatchCoder& coder_;
  const Patch& patch_;
  double tolerance_;
  std::vector<std::vector<std::uint8_t>> validity_;
  std::vector<Bytes> payloads_;
};

void PrintRow(std::string_view name, const std::vector<double>& nanoseconds, double samples) {
  fmt::print("  {:<40}", name);
  for (const double each : nanoseconds) fmt::print("{:>9.3f}", each / samples);
  fmt::print("\n");
}

/// @param splits  by instruction set
void PrintDirection(const char* name, const std::vector<Split>& splits, double samples) {
  fmt::print("{}\n", name);
  const auto row = [&](const char* what, auto value) {
    std::vector<double> values;
    values.reserve(splits.size());
    for (const Split& split : splits) values.push_back(value(split));
    PrintRow(what, values, samples);
  };
  for (std::size_t s = 0; s < kStages; ++s) {
    if (splits.front().stages[s] > 0)
      row(kStageNames[s], [s](const Split& split) { return split.stages[s]; });
  }
  row("the rest", [](const Split& split) { return split.all - split.in_stages; });
  row("all", [](const Split& split) { return split.all; });
}

}  // namespace

Status PrintStages(const Volume& volume, double relative, const std::vector<std::string>& instruction_sets,
                   int repeats) {
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  if (!coder.Supports(volume.options.type))
    return InvalidArgument("{} does not take {}", coder.name(), Name(volume.options.type));
  std::vector<const Kernels*> sets;
  for (const std::string& name : instruction_sets) {
    if (const Kernels* kernels = interpolate::FindKernels(name)) sets.push_back(kernels);
  }
  if (sets.empty()) return InvalidArgument("this processor has none of the instruction sets");

  std::vector<StagedPatch> patches;
  patches.reserve(volume.patches.size());
  double samples = 0;
  for (const Patch& patch : volume.patches) {
    if (patch.valid == 0) continue;  // never reaches a coder
    patches.emplace_back(coder, patch, relative * volume.range(), sets.size());
    samples += static_cast<double>(quarry::Volume(patch.layout.shape));
  }
  const Stopwatch watch;
  for (int pass = 0; pass < repeats; ++pass) {
    for (StagedPatch& patch : patches) QUARRY_RETURN_IF_ERROR(patch.RunPass(watch, sets));
  }

  std::vector<Split> decode(sets.size());
  std::vector<Split> encode(sets.size());
  double bytes = 0;
  for (const StagedPatch& patch : patches) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      decode[i].Add(patch.decode[i]);
      encode[i].Add(patch.encode[i]);
    }
    bytes += static_cast<double>(patch.bytes());
  }
  fmt::print(
      "{}, {}, patches of {}, tolerance {} of the range, {:.2f} times smaller; nanoseconds a new sample\n",
      volume.options.name, Name(volume.options.type), ToString(volume.patch_shape), relative,
      samples * static_cast<double>(SizeOf(volume.options.type)) / bytes);
  fmt::print("{:<42}", "");
  for (const Kernels* set : sets) fmt::print("{:>9}", set->name);
  fmt::print("\n");
  PrintDirection("decode", decode, samples);
  PrintDirection("encode", encode, samples);
  return Status::Ok();
}

}  // namespace quarry::bench
