#include "writer/convert/dry_run.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "quarry/base/missing.h"
#include "quarry/base/units.h"
#include "quarry/format/description_rules.h"
#include "writer/convert/describe.h"
#include "writer/distribution/decomposition.h"
#include "writer/pipeline/dataset_writer.h"
#include "writer/pipeline/encode.h"
#include "writer/pipeline/rounding.h"
#include "writer/pipeline/subfile_writer.h"

namespace quarry::writer {
namespace {

constexpr std::int64_t kSampledPatches = 8;

struct Estimate {
  std::uint64_t raw_bytes = 0;
  std::uint64_t coded_bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t valid = 0;
  std::optional<OutlyingSamples> outlying;
};

/// The samples of one patch as float32.
Result<Bytes> RoundPatch(const Bytes& samples, const FieldDescription& field, const FieldSource::Wider& wider,
                         const PatchGrid& grid, std::int64_t patch, double* change) {
  const Box whole = grid.PatchBox(patch);
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid alone, PatchGrid::Create(whole.shape(), grid.patch()));
  const Box box = alone.domain();
  Bytes rounded(static_cast<std::size_t>(box.volume()) * sizeof(float));
  PatchChanges changes;
  Float32Rounding rounding(field, wider.fill);
  QUARRY_RETURN_IF_ERROR(rounding.Round(
      BoxView::Dense(samples.data(), box, sizeof(double)), box, alone, whole.begin, &changes,
      std::span(reinterpret_cast<float*>(rounded.data()), static_cast<std::size_t>(box.volume()))));
  *change = changes[0];
  return rounded;
}

/// Valid samples of a patch for the look at their range.
void ChooseSamples(const FieldDescription& field, const Bytes& samples, const SampleChoice& choice,
                   std::vector<double>* chosen) {
  DispatchType(field.type, [&]<typename T>(T) {
    for (std::size_t at = 0; at < samples.size(); at += choice.stride() * sizeof(T)) {
      T sample;
      std::memcpy(&sample, samples.data() + at, sizeof(T));
      if (!IsMissing(sample, field.fill_bits())) chosen->push_back(static_cast<double>(sample));
    }
  });
}

/// Reads and encodes evenly spaced patches along the Morton curve.
Result<Estimate> EncodeSomePatches(const input::Input& input, const FieldDescription& field,
                                   const std::optional<FieldSource::Wider>& wider,
                                   const GridDescription& described) {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(described));
  const std::int64_t count = std::min(kSampledPatches, grid.patch_count());
  std::vector<PatchSamples> patches;
  SampleScan range;
  std::vector<double> chosen;
  const SampleChoice choice(static_cast<std::uint64_t>(count * Volume(described.patch)));
  Estimate estimate;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t patch = grid.PatchAtCurvePosition((2 * i + 1) * grid.patch_count() / (2 * count));
    QUARRY_ASSIGN_OR_RETURN(Bytes samples, input::ReadBox(input, grid.PatchBox(patch)));
    estimate.raw_bytes += samples.size();
    estimate.samples += samples.size() / SizeOf(input.info().type);
    double change = 0;
    if (wider) {
      QUARRY_ASSIGN_OR_RETURN(samples, RoundPatch(samples, field, *wider, grid, patch, &change));
    }
    const SampleScan scan = ScanSamples(field.type, samples, field.fill_bits());
    range.Add(scan);
    estimate.valid += scan.valid;
    ChooseSamples(field, samples, choice, &chosen);
    patches.push_back({patch, std::move(samples), change});
  }
  estimate.outlying = FindOutlying(&chosen, range.min, range.max);
  const EncodeSettings settings{field.coder, field.type, described.levels,
                                CoderTolerances(field, range.min, range.max), field.fill_bits()};
  for (const PatchSamples& patch : patches) {
    QUARRY_ASSIGN_OR_RETURN(const EncodedPatchOfGrid encoded, EncodePatchOfGrid(grid, settings, patch));
    estimate.coded_bytes += StoredBytes(SampleRow(encoded));
    if (estimate.valid < estimate.samples)
      estimate.coded_bytes += StoredBytes(MaskRow(encoded, grid.PatchBox(patch.patch_index).volume()));
  }
  return estimate;
}

/// How a grid is cut and shared out.
Result<std::string> DescribeGrid(const WriteOptions& options, const GridDescription& described, int ranks) {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(described));
  const bool direct = options.reading == distribution::ReadingOrder::kDirect;
  const distribution::ReadingBoxes owned(grid.domain(), direct ? described.patch : Index3{1, 1, 1}, ranks,
                                         direct ? options.reading : distribution::ReadingOrder::kConsecutive);
  const auto target = distribution::TargetCounts(grid.patch_count(), ranks);
  std::vector<std::int64_t> counts(target.size(), 0);
  distribution::ForEachPlacement(
      grid, owned, PlacementOf(options), target,
      [&](const distribution::PlacedPatch& placed) { ++counts[static_cast<std::size_t>(placed.rank)]; });
  const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
  return fmt::format(
      "grid       {} samples\n"
      "patches    {} of {} ({} in all), {} levels\n"
      "ranks      {}, {} to {} patches each\n"
      "files      {} per field and step\n",
      ToString(described.dims), ToString(grid.patches()), ToString(described.patch), grid.patch_count(),
      described.levels, ranks, *fewest, *most, ChooseFileCount(options.pipeline.files, grid, ranks));
}

}  // namespace

Result<std::string> DescribeRun(const WriteOptions& options, const Jobs& jobs,
                                const DatasetDescription& dataset, int ranks) {
  std::string text = "dry run: nothing is written\n";
  std::set<std::size_t> described;
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      const FieldDescription& field = dataset.fields[*dataset.FindField(job.info.field)];
      if (!described.insert(field.grid).second) continue;
      QUARRY_ASSIGN_OR_RETURN(const std::string grid, DescribeGrid(options, dataset.GridOf(field), ranks));
      text += grid;
    }
  }
  std::uint64_t total_raw = 0;
  double total_coded = 0;
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      const input::InputInfo& input = job.info;
      const FieldDescription& field = dataset.fields[*dataset.FindField(input.field)];
      QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<input::Input> open, job.Open(options));
      QUARRY_ASSIGN_OR_RETURN(const auto wider, FindWider(job.OptionsIn(options), input, field));
      QUARRY_ASSIGN_OR_RETURN(const Estimate estimate,
                              EncodeSomePatches(*open, field, wider, dataset.GridOf(field)));
      if (estimate.outlying && field.needs_range() && !options.pipeline.accept_range)
        return OutlyingRefusal(*estimate.outlying, field.name, input.source);
      const std::uint64_t raw = static_cast<std::uint64_t>(Volume(input.dims)) * SizeOf(input.type);
      const double share = estimate.raw_bytes == 0 ? 1
                                                   : static_cast<double>(estimate.coded_bytes) /
                                                         static_cast<double>(estimate.raw_bytes);
      const double coded = share * static_cast<double>(raw);
      const double valid = static_cast<double>(estimate.valid) / static_cast<double>(estimate.samples);
      text +=
          fmt::format("step {:<5} {:<16} {} of {} by {}{}, about {:.0f}% valid, about {} stored\n", step,
                      input.field, FormatBytes(raw),
                      wider ? fmt::format("{} as {}", Name(input.type), Name(field.type)) : Name(input.type),
                      Name(field.coder), field.lossless() ? " without loss" : "", 100 * valid,
                      FormatBytes(static_cast<std::uint64_t>(coded)));
      total_raw += raw;
      total_coded += coded;
    }
  }
  text += fmt::format("estimate   {} -> about {} ({:.1f}x), from up to {} patches per field\n",
                      FormatBytes(total_raw), FormatBytes(static_cast<std::uint64_t>(total_coded)),
                      static_cast<double>(total_raw) / std::max(1.0, total_coded), kSampledPatches);
  return text;
}

}  // namespace quarry::writer
