// Compares the coders of patches with zfp alone and zstd alone: ratio, error, speed. Everything is in memory
// and on one thread; the coders take turns patch by patch, so that a busy machine hits all alike. One JSON
// object a line.
#include <sched.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "benchmarks/codec/candidate.h"
#include "benchmarks/codec/ladder.h"
#include "benchmarks/codec/stages.h"
#include "quarry/base/memory.h"
#include "quarry/command_line/command_line.h"
#include "quarry/format/subfile.h"

namespace quarry::bench {
namespace {

constexpr int kExitViolation = 1;
const std::vector<std::string> kKnownCoders = {"wavelet-zfp", "interpolate", "lossless"};
const std::vector<std::string> kInstructionSets = {"scalar", "avx2", "avx512", "neon"};
const std::vector<std::string> kLossyPeers = {"zfp", "zfp-tuned"};
const std::vector<std::string> kLosslessPeers = {"zfp-reversible", "zstd-1", "zstd-3", "shuffle-zstd-1",
                                                 "shuffle-zstd-3"};

struct Options {
  VolumeOptions volume;
  std::vector<double> tolerances = {1e-1, 1e-2, 1e-3, 1e-4, 1e-5};
  std::vector<std::int64_t> patches = {64};
  std::vector<std::string> coders;
  std::string isa;
  std::vector<double> ladder;
  bool stages = false;
  int repeats = 3;
  int cpu = -1;
};

/// All samples of one candidate at one tolerance, gathered while it is measured.
struct Measured {
  std::unique_ptr<Candidate> candidate;
  Deviation deviation;
};

bool Wanted(const Options& options, const std::string& name) {
  return options.coders.empty() ||
         std::find(options.coders.begin(), options.coders.end(), name) != options.coders.end();
}

/// Prints each line once, however many tolerances there are.
void Skip(const std::string& name, const std::string& why) {
  static std::set<std::string> said;
  const std::string line = fmt::format("codec_bench: {} is left out: {}\n", name, why);
  if (said.insert(line).second) std::fputs(line.c_str(), stderr);
}

/// Coders of the registry that take this type of samples.
std::vector<const PatchCoder*> Coders(const Options& options, bool lossless) {
  std::vector<const PatchCoder*> coders;
  for (const std::string& name : kKnownCoders) {
    if (!Wanted(options, name)) continue;
    const Result<CoderId> id = ParseCoder(name);
    const PatchCoder* coder = id.ok() ? FindCoder(*id) : nullptr;
    if (coder == nullptr) {
      if (!lossless) Skip(name, "this version does not have it");
      continue;
    }
    if (coder->traits().is_lossless != lossless) continue;
    if (!coder->Supports(options.volume.type)) {
      Skip(name, fmt::format("it does not take {}", Name(options.volume.type)));
      continue;
    }
    coders.push_back(coder);
  }
  return coders;
}

std::unique_ptr<Candidate> NewPeer(const std::string& name, const Volume& volume, double tolerance) {
  if (name == "zfp") return NewZfpCandidate(volume, tolerance);
  if (name == "zfp-tuned") return NewTunedZfpCandidate(volume, tolerance);
  if (name == "zfp-reversible") return NewReversibleZfpCandidate(volume);
  return NewZstdCandidate(volume, name.back() - '0', name.starts_with("shuffle-"));
}

std::vector<Measured> LossyCandidates(const Options& options, const Volume& volume, double tolerance) {
  std::vector<Measured> candidates;
  for (const PatchCoder* coder : Coders(options, false)) {
    candidates.push_back({NewCoderCandidate(*coder, volume, tolerance), {}});
  }
  for (const std::string& name : kLossyPeers) {
    if (!Wanted(options, name) || !IsFloat(volume.options.type)) continue;
    if (volume.has_missing && !volume.has_filled) {
      Skip(name, "the volume has missing samples; give one without them with --filled");
      continue;
    }
    candidates.push_back({NewPeer(name, volume, tolerance), {}});
  }
  return candidates;
}

std::vector<Measured> LosslessCandidates(const Options& options, const Volume& volume) {
  std::vector<Measured> candidates;
  for (const PatchCoder* coder : Coders(options, true)) {
    candidates.push_back({NewCoderCandidate(*coder, volume, 0), {}});
  }
  for (const std::string& name : kLosslessPeers) {
    if (Wanted(options, name)) candidates.push_back({NewPeer(name, volume, 0), {}});
  }
  return candidates;
}

Status Encode(const Volume& volume, int repeats, std::vector<Measured>* all) {
  for (int pass = 0; pass < repeats; ++pass) {
    for (Measured& measured : *all) measured.candidate->StartEncodePass();
    for (std::size_t patch = 0; patch < volume.patches.size(); ++patch) {
      for (Measured& measured : *all) {
        QUARRY_RETURN_IF_ERROR(measured.candidate->Encode(patch).Annotate(measured.candidate->name()));
      }
    }
  }
  return Status::Ok();
}

Status Decode(const Volume& volume, int repeats, double tolerance, std::vector<Measured>* all) {
  for (int pass = 0; pass < repeats; ++pass) {
    for (Measured& measured : *all) measured.candidate->StartDecodePass();
    for (std::size_t patch = 0; patch < volume.patches.size(); ++patch) {
      for (Measured& measured : *all) {
        QUARRY_RETURN_IF_ERROR(measured.candidate->Decode(patch).Annotate(measured.candidate->name()));
        if (pass > 0) continue;
        measured.deviation.Add(volume.patches[patch], measured.candidate->decoded(), tolerance);
      }
    }
  }
  return Status::Ok();
}

/// Bytes that a subfile adds to the payloads: header, one row of the table for each patch, footer.
std::uint64_t TableBytes(const Volume& volume) {
  return format::SubfileHeader::kEncodedSize +
         volume.patches.size() * format::PatchEntry::EncodedSize(volume.levels) +
         format::SubfileFooter::kEncodedSize;
}

bool IsPeer(const std::string& name) {
  return std::find(kKnownCoders.begin(), kKnownCoders.end(), name) == kKnownCoders.end();
}

/// Whether the samples keep the promise; prints on stderr what does not.
bool Check(const Volume& volume, const Measured& measured, double tolerance) {
  const Candidate& candidate = *measured.candidate;
  const Deviation& deviation = measured.deviation;
  std::vector<std::string> broken;
  if (candidate.lossless() && deviation.changed > 0) {
    broken.push_back(fmt::format("{} samples are not what they were", deviation.changed));
  }
  if (!candidate.lossless() && deviation.beyond > 0) {
    broken.push_back(fmt::format("{} samples are beyond the tolerance", deviation.beyond));
  }
  // Coders without masks were given something else in place of missing samples.
  if (!IsPeer(candidate.name()) && deviation.missing_changed > 0) {
    broken.push_back(fmt::format("{} missing samples have changed", deviation.missing_changed));
  }
  const std::optional<double> recorded = candidate.recorded_error();
  if (recorded && !(deviation.max_error <= *recorded)) {
    broken.push_back(fmt::format("the error record says {}", *recorded));
  }
  for (const std::string& what : broken) {
    fmt::print(stderr, "codec_bench: VIOLATION: {}, {}, tolerance {}: {}; the largest error is {}\n",
               volume.options.name, candidate.name(), tolerance, what, deviation.max_error);
  }
  return broken.empty();
}

nlohmann::ordered_json Describe(const Options& options, const Volume& volume, const Measured& measured,
                                std::optional<double> relative, double tolerance) {
  const Candidate& candidate = *measured.candidate;
  const auto raw = static_cast<double>(volume.raw_bytes());
  const bool filled_before = volume.has_missing && IsPeer(candidate.name()) && !candidate.lossless();
  const std::uint64_t total = candidate.bytes() + (filled_before ? volume.options.filled_mask_bytes : 0);
  const auto bytes = static_cast<double>(total);
  const double psnr = measured.deviation.Psnr(volume.range());
  nlohmann::ordered_json result;
  result["program"] = "codec_bench";
  result["volume"] = volume.options.name;
  result["type"] = Name(volume.options.type);
  result["dims"] = volume.options.dims;
  result["patch"] = volume.patch_shape;
  result["patches"] = volume.patches.size();
  result["coder"] = candidate.name();
  result["isa"] = options.isa.empty() ? "best" : options.isa;
  result["lossless"] = candidate.lossless();
  if (relative) {
    result["tolerance"] = *relative;
    result["tolerance_absolute"] = tolerance;
  }
  result["bytes"] = total;
  result["table_bytes"] = IsPeer(candidate.name()) ? 0 : TableBytes(volume);
  result["ratio"] = raw / bytes;
  result["ratio_with_table"] = raw / (bytes + result["table_bytes"].get<double>());
  result["bits_per_sample"] = 8 * bytes / static_cast<double>(volume.samples);
  result["max_error"] = measured.deviation.max_error;
  if (relative) result["error_over_tolerance"] = measured.deviation.max_error / tolerance;
  result["psnr"] = std::isfinite(psnr) ? nlohmann::ordered_json(psnr) : nlohmann::ordered_json();
  result["encode_mbps"] = raw / 1e6 / candidate.encode_times.Best();
  result["encode_mbps_median_pass"] = raw / 1e6 / candidate.encode_times.Median();
  result["decode_mbps"] = raw / 1e6 / candidate.decode_times.Best();
  result["decode_mbps_median_pass"] = raw / 1e6 / candidate.decode_times.Median();
  result["repeats"] = options.repeats;
  result["filled_before"] = filled_before;
  candidate.Describe(&result);
  return result;
}

/// Measures candidates against each other and prints a line for each. @returns whether all kept their promise
Result<bool> Compare(const Options& options, const Volume& volume, std::vector<Measured> all,
                     std::optional<double> relative) {
  const double tolerance = relative.value_or(0) * volume.range();
  QUARRY_RETURN_IF_ERROR(Encode(volume, options.repeats, &all));
  QUARRY_RETURN_IF_ERROR(Decode(volume, options.repeats, tolerance, &all));
  bool held = true;
  for (const Measured& measured : all) {
    held = Check(volume, measured, tolerance) && held;
    std::puts(Describe(options, volume, measured, relative, tolerance).dump().c_str());
  }
  std::fflush(stdout);
  return held;
}

Status PrintAllStages(const Options& options, const Volume& volume) {
  const std::vector<std::string> sets =
      options.isa.empty() ? kInstructionSets : std::vector<std::string>{options.isa};
  for (const double relative : options.tolerances)
    QUARRY_RETURN_IF_ERROR(PrintStages(volume, relative, sets, options.repeats));
  return Status::Ok();
}

Result<bool> Run(const Options& options) {
  bool held = true;
  for (const std::int64_t edge : options.patches) {
    QUARRY_ASSIGN_OR_RETURN(const Volume volume, LoadVolume(options.volume, edge));
    if (options.stages) {
      QUARRY_RETURN_IF_ERROR(PrintAllStages(options, volume));
      continue;
    }
    if (!options.ladder.empty()) {
      QUARRY_ASSIGN_OR_RETURN(const bool kept, PrintLadder(volume, options.ladder, options.repeats));
      held = held && kept;
      continue;
    }
    for (const double relative : options.tolerances) {
      QUARRY_ASSIGN_OR_RETURN(
          const bool kept,
          Compare(options, volume, LossyCandidates(options, volume, relative * volume.range()), relative));
      held = held && kept;
    }
    QUARRY_ASSIGN_OR_RETURN(const bool kept,
                            Compare(options, volume, LosslessCandidates(options, volume), std::nullopt));
    held = held && kept;
  }
  return held;
}

void Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) Skip("pinning", "the system refuses it");
}

/// Options as they are typed, before they are checked.
struct Text {
  std::string dims;
  std::string type = "float32";
};

void Declare(command_line::Parser* app, Options* options, Text* text) {
  std::vector<std::string> names = kKnownCoders;
  names.insert(names.end(), kLossyPeers.begin(), kLossyPeers.end());
  names.insert(names.end(), kLosslessPeers.begin(), kLosslessPeers.end());

  VolumeOptions& volume = options->volume;
  app->AddOption("input", &volume.input, "raw samples, little-endian, x fastest").Required();
  app->AddOption("--dims", &text->dims, "samples along x, y, z: XxYxZ").Required();
  app->AddOption("--type", &text->type, "of a sample");
  app->AddOption("--name", &volume.name, "of the volume in the output; default: the path");
  app->AddOption("--fill", &volume.fill, "value of missing samples");
  app->AddOption("--filled", &volume.filled,
                 "the same volume with missing samples replaced, for zfp alone, which has no masks");
  app->AddOption("--filled-mask-bytes", &volume.filled_mask_bytes, "bytes of a mask, added to its size");
  app->AddOption("--tolerances", &options->tolerances, "of the range of the valid samples").SeparatedBy(',');
  app->AddOption("--patches", &options->patches, "samples along an edge of a patch").SeparatedBy(',');
  app->AddOption("--coders", &options->coders, "these only; default: all").SeparatedBy(',').OneOf(names);
  app->AddOption("--isa", &options->isa, "instructions that coders may use; default: the best there are")
      .OneOf(kInstructionSets);
  app->AddOption(
         "--ladder", &options->ladder,
         "instead of comparing: interpolate in layers of these tolerances, of the range, 0 the last: bit "
         "by bit; and each tolerance alone")
      .SeparatedBy(',');
  app->AddFlag("--stages", &options->stages,
               "instead of comparing: how long each stage of interpolate takes, with every instruction set");
  app->AddOption("--repeats", &options->repeats,
                 "passes over all patches; the best time of each patch counts")
      .Between(1, 1000);
  app->AddOption("--cpu", &options->cpu, "pin the thread to this processor");
}

Result<bool> Start(Options options, const Text& text) {
  // Coders look at it when they are first used.
  if (!options.isa.empty()) setenv("QUARRY_ISA", options.isa.c_str(), 1);
  if (options.cpu >= 0) Pin(options.cpu);
  if (options.volume.name.empty()) options.volume.name = options.volume.input;
  QUARRY_ASSIGN_OR_RETURN(options.volume.dims, ParseShape(text.dims, "--dims"));
  QUARRY_ASSIGN_OR_RETURN(options.volume.type, ParseDataType(text.type));
  return Run(options);
}

}  // namespace
}  // namespace quarry::bench

int main(int argc, char** argv) {
  quarry::KeepFreedMemory();  // as the programs that read and write do
  quarry::command_line::Parser app(
      "codec_bench",
      R"(Ratio, error and speed of Quarry's coders on one volume, next to zfp alone and zstd alone. Prints JSON lines.
Ends with 1 when a decoded sample is not what was promised.
Example: codec_bench wmag91.f32 --dims 91x91x91 --tolerances 1e-2,1e-3 --patches 64
With --ladder one line for a volume in layers of accuracy.
Example: codec_bench wmag91.f32 --dims 91x91x91 --ladder 1e-2,1e-4,0
With --stages a table instead: nanoseconds a new sample that each stage of "interpolate" takes.
"The rest" is all that is no kernel: tables, flags of zeros, adaptive bits, memory; in encoding also the choices
and the entropy coder.
Example: codec_bench wmag91.f32 --dims 91x91x91 --tolerances 1e-3 --stages --repeats 20 --cpu 1)");
  quarry::bench::Options options;
  quarry::bench::Text text;
  quarry::bench::Declare(&app, &options, &text);
  return RunProgram(&app, argc, argv, [&]() -> quarry::Result<int> {
    QUARRY_ASSIGN_OR_RETURN(const bool held, quarry::bench::Start(options, text));
    return held ? 0 : quarry::bench::kExitViolation;
  });
}
