#include "tests/property/random_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "quarry/base/missing.h"
#include "quarry/geometry/patch_grid.h"
#include "writer/pipeline/dataset_writer.h"

namespace quarry::testing {
namespace {

/// Samples in memory.
class MemorySource final : public writer::FieldSource {
 public:
  explicit MemorySource(const RandomDataset& dataset)
      : whole_(writer::BoxView::Dense(dataset.original.samples.data(), {{}, dataset.grid().dims},
                                      SizeOf(dataset.field().type))) {}

  std::unique_ptr<distribution::RankBoxes> Owned(const Box& region) const override {
    return std::make_unique<distribution::ListedBoxes>(distribution::Ownership{{region}});
  }

  Result<std::vector<writer::BoxView>> Load(const std::vector<Box>& boxes) override {
    std::vector<writer::BoxView> views;
    for (const Box& box : boxes) {
      writer::BoxView view = whole_;
      for (std::size_t a = 0; a < 3; ++a) view.data += box.begin[a] * whole_.stride[a];
      views.push_back(view);
    }
    return views;
  }

 private:
  const writer::BoxView whole_;
};

/// Floats and narrow integers twice as often as integers of 64 bits.
DataType RandomType(const PatchCoder& coder, Random* random) {
  constexpr DataType kWide[] = {DataType::kInt64, DataType::kUint64};
  while (true) {
    const DataType type = random->OneIn(8) ? kWide[random->Below(std::size(kWide))]
                                           : kAllTypes[random->Below(std::size(kAllTypes))];
    if (coder.Supports(type)) return type;
  }
}

/// The fill value with these bits. Nothing for NaN and infinity, which are missing without one.
std::optional<SampleValue> FillOf(DataType type, std::uint64_t bits) {
  return DispatchType(type, [&]<typename T>(T) -> std::optional<SampleValue> {
    T sample;
    std::memcpy(&sample, &bits, sizeof(T));
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(sample)) return std::nullopt;
    }
    return SampleValue(sample);
  });
}

/// 1e-1 to 1e-7 of the range, evenly in the logarithm; positive and finite.
double RandomTolerance(double range, Random* random) {
  const double base = range > 0 ? range : 1;
  return std::clamp(base * std::pow(10, -1 - 6 * random->Fraction()), std::numeric_limits<double>::min(),
                    std::numeric_limits<double>::max());
}

/// A bound that the coder can keep, in one to three layers of accuracy.
void SetRandomBound(const CoderTraits& coder, double range, FieldDescription* field, Random* random) {
  if (coder.is_lossless) {
    field->bound = Lossless{};
    return;
  }
  if (coder.bound_is_relative) {
    field->bound = PointwiseBound{std::pow(10, -1 - 6 * random->Fraction())};
    return;
  }
  double tolerance = RandomTolerance(range, random);
  const int layers = random->OneIn(2) ? std::min(coder.most_layers, random->Between(2, 3)) : 1;
  while (field->layers() < layers) {
    const double next = tolerance * std::pow(10, -2 * random->Fraction()) * 0.9;
    if (!(next > 0)) break;
    field->rougher.push_back(tolerance);
    tolerance = next;
  }
  field->bound = AbsoluteBound{tolerance};
  if (field->layers() > 1 && random->OneIn(3)) field->bound = Lossless{};
  // A range beyond float64 makes no tolerance.
  if (field->layers() == 1 && random->OneIn(3) && range > 0 && range < 1e300)
    field->bound = RelativeBound{std::pow(10, -1 - 6 * random->Fraction())};
}

}  // namespace

RandomDataset MakeRandomDataset(const PatchCoder& coder, std::int64_t max_volume, Random* random) {
  RandomDataset dataset;
  const DataType type = RandomType(coder, random);
  // Integers of 64 bits are the bits of float64 samples.
  const PatchSpec spec = RandomSpec(IsWideInteger(type) ? DataType::kFloat64 : type, max_volume, random);
  Generate(spec, &dataset.original);
  dataset.range = ValueRange(spec.layout.type, dataset.original);
  FieldDescription field;
  field.name = "f";
  field.type = type;
  field.coder = coder.id();
  if (dataset.original.fill) field.fill = FillOf(type, *dataset.original.fill);
  dataset.original.fill = field.fill_bits();
  SetRandomBound(coder.traits(), dataset.range, &field, random);
  GridDescription& grid = dataset.description.grids[0];
  grid.dims = spec.layout.shape;
  for (std::int64_t& side : grid.patch) side = std::int64_t{1} << random->Between(3, 6);
  grid.levels = random->Between(1, MaxLevels(grid.dims, grid.patch));
  dataset.text = fmt::format("{}, {} in patches of {}, {} levels, bound {}, rougher [{}], {}", coder.name(),
                             Name(type), quarry::ToString(grid.patch), grid.levels, ToleranceOf(field.bound),
                             fmt::join(field.rougher, ", "), ToString(spec));
  dataset.description.fields.push_back(std::move(field));
  return dataset;
}

Status WriteDataset(const RandomDataset& dataset, const std::filesystem::path& path) {
  writer::PipelineOptions options;
  options.accept_range = true;
  QUARRY_ASSIGN_OR_RETURN(const auto writer, writer::DatasetWriter::Open(MPI_COMM_WORLD, path.string(),
                                                                         writer::OpenMode::kCreate, options));
  QUARRY_RETURN_IF_ERROR(writer->Declare(dataset.description));
  MemorySource source(dataset);
  QUARRY_RETURN_IF_ERROR(writer->WriteField(0, 0, "random", &source).status());
  return writer->PublishStep(0, std::nullopt);
}

}  // namespace quarry::testing
