#include "tests/testing/make_dataset.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>

#include "quarry/dataset/read_samples.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "writer/distribution/aggregation.h"
#include "writer/pipeline/encode.h"
#include "writer/pipeline/publish.h"
#include "writer/pipeline/subfile_writer.h"

namespace quarry::testing {

namespace fs = std::filesystem;

namespace {

void Require(const Status& status) {
  if (status.ok()) return;
  std::cerr << "test setup: " << status.message() << "\n";
  std::abort();
}

template <typename T>
T Require(Result<T> result) {
  Require(result.status());
  return *std::move(result);
}

Bytes CutPatch(const std::vector<float>& samples, const Index3& dims, const Box& box) {
  Bytes bytes;
  for (auto z = box.begin[2]; z < box.end[2]; ++z) {
    for (auto y = box.begin[1]; y < box.end[1]; ++y) {
      for (auto x = box.begin[0]; x < box.end[0]; ++x)
        PutLittleEndian(&bytes, samples[static_cast<std::size_t>(x + dims[0] * (y + dims[1] * z))]);
    }
  }
  return bytes;
}

/// A patch with the payloads of its parts.
struct SubfilePatch {
  format::PatchEntry row;
  std::vector<Bytes> levels;
};

/// A whole subfile at once.
/// @param patches  in Morton order
writer::SubfileSummary WriteSubfile(const fs::path& path, const format::SubfileHeader& header,
                                    const PatchGrid& grid, const std::vector<SubfilePatch>& patches) {
  auto file = Require(writer::SubfileWriter::Create(path, header, grid, 1 << 20));
  for (const SubfilePatch& patch : patches) Require(file.AddRow(patch.row));
  format::ForEachPayload(header, patches.size(), [&](std::size_t row, int part) {
    if (!patches[row].levels.empty())
      Require(file.Append(patches[row].levels[static_cast<std::size_t>(part)]));
  });
  return Require(file.Finish());
}

/// Splits patches into files and writes these.
/// @param packed  in Morton order
std::vector<writer::SubfileSummary> WriteFiles(const DatasetRecipe& recipe, const PatchGrid& grid,
                                               format::SubfileHeader header, const fs::path& folder,
                                               std::vector<SubfilePatch> packed) {
  std::vector<std::uint64_t> sizes;
  for (const auto& patch : packed) sizes.push_back(writer::StoredBytes(patch.row));
  const std::size_t files = distribution::UsableFiles(packed.size(), recipe.files);
  const auto begin = distribution::AssignPatches(sizes, files, distribution::AggregationStrategy::kBalanced);
  std::vector<writer::SubfileSummary> summaries;
  for (std::size_t f = 0; f < files; ++f) {
    const std::vector<SubfilePatch> part(packed.begin() + static_cast<std::ptrdiff_t>(begin[f]),
                                         packed.begin() + static_cast<std::ptrdiff_t>(begin[f + 1]));
    header.subfile_number = static_cast<std::uint32_t>(f);
    header.patch_count = part.size();
    header.block_bits = format::BlockBitsOf(part.size(), recipe.block_bits);
    summaries.push_back(WriteSubfile(folder / format::SubfileName(f), header, grid, part));
  }
  return summaries;
}

std::vector<SubfileDescription> SubfilesOf(const std::vector<writer::SubfileSummary>& summaries) {
  std::vector<SubfileDescription> subfiles;
  for (const auto& summary : summaries)
    subfiles.push_back({format::SubfileName(subfiles.size()), summary.bytes, summary.patches, summary.bounds,
                        summary.table_checksum});
  return subfiles;
}

GridDescription GridOf(const DatasetRecipe& recipe) {
  GridDescription grid;
  grid.dims = recipe.dims;
  grid.patch = recipe.patch;
  grid.levels = recipe.levels;
  return grid;
}

/// The mask of encoded patches, written unless it exists; nothing when no sample is missing.
std::optional<MaskDescription> WriteMask(const DatasetRecipe& recipe, const PatchGrid& grid,
                                         const std::vector<writer::EncodedPatchOfGrid>& encoded,
                                         writer::Publisher* publisher) {
  std::vector<std::uint64_t> digests;
  std::vector<SubfilePatch> packed;
  bool any = false;
  for (const auto& patch : encoded) {
    const std::int64_t samples = grid.PatchBox(patch.patch_index).volume();
    packed.push_back({writer::MaskRow(patch, samples), patch.encoded.mask_levels});
    digests.push_back(format::MaskDigest(packed.back().row));
    any = any || !patch.encoded.mask_levels.empty();
  }
  if (!any) return std::nullopt;
  const std::uint64_t name = format::MaskName(digests, 0);
  DatasetDescription dataset;
  dataset.grids[0] = GridOf(recipe);
  if (auto known = Require(publisher->FindMask(name, dataset, 0))) return known;
  const format::SubfileHeader header = format::MaskHeader(name, dataset.grids[0], recipe.order);
  const fs::path folder = Require(publisher->StageMask(name));
  const MaskDescription mask{name, SubfilesOf(WriteFiles(recipe, grid, header, folder, std::move(packed))),
                             0};
  publisher->AddMask(mask);
  return mask;
}

FieldStepDescription WriteField(const DatasetRecipe& recipe, const PatchGrid& grid, std::uint64_t step,
                                std::size_t number, writer::Publisher* publisher) {
  const std::vector<float> samples = MakeSamples(recipe.dims, step, recipe.missing);
  std::vector<writer::PatchSamples> patches;
  for (const std::int64_t p : grid.MortonOrder())
    patches.push_back({p, CutPatch(samples, recipe.dims, grid.PatchBox(p))});
  writer::EncodeSettings settings{recipe.coder, DataType::kFloat32, recipe.levels, recipe.rougher, {}};
  settings.tolerances.push_back(recipe.lossless ? 0 : recipe.tolerance);
  std::vector<writer::EncodedPatchOfGrid> encoded;
  for (const auto& patch : patches)
    encoded.push_back(Require(writer::EncodePatchOfGrid(grid, settings, patch)));

  FieldStepDescription field;
  field.name = recipe.field;
  field.tolerance = settings.tolerances.back();
  field.raw_bytes = samples.size() * sizeof(float);
  field.patches = encoded.size();
  field.levels.resize(static_cast<std::size_t>(recipe.levels));
  for (const double tolerance : recipe.rougher) field.rougher.push_back({tolerance, field.levels});
  field.mask = WriteMask(recipe, grid, encoded, publisher);

  format::SubfileHeader header;
  header.step = step;
  header.field_number = static_cast<std::uint32_t>(number);
  header.dims = recipe.dims;
  header.patch = recipe.patch;
  header.levels = recipe.levels;
  header.SetOrder(recipe.order);
  header.coder = recipe.coder;
  header.layers = static_cast<int>(settings.tolerances.size());
  header.field_name = recipe.field;
  header.mask = field.mask_name();
  std::vector<SubfilePatch> packed;
  for (const auto& patch : encoded) packed.push_back({writer::SampleRow(patch), patch.encoded.levels});
  const fs::path folder = Require(publisher->StageField(step, recipe.field));
  const auto summaries = WriteFiles(recipe, grid, header, folder, std::move(packed));
  field.subfiles = SubfilesOf(summaries);
  for (const auto& summary : summaries) {
    field.stored_bytes += summary.bytes;
    field.valid += summary.valid;
    field.max_error = std::max(field.max_error, summary.levels[0].max_error);
  }
  return field;
}

/// The samples of one level of an answer.
class CollectingSink final : public BlockSink {
 public:
  explicit CollectingSink(const query::LevelExtent& level)
      : level_(level.level),
        extent_(level.extent),
        samples_(static_cast<std::size_t>(extent_.volume()), NAN) {}

  Status Deliver(const SampleBlock& block) override {
    if (block.level != level_) return Status::Ok();
    const Box& extent = block.extent;
    ByteSpan bytes = block.samples;
    const Index3 shape = extent_.shape();
    for (auto z = extent.begin[2]; z < extent.end[2]; ++z) {
      for (auto y = extent.begin[1]; y < extent.end[1]; ++y) {
        for (auto x = extent.begin[0]; x < extent.end[0]; ++x) {
          const auto to =
              x - extent_.begin[0] + shape[0] * (y - extent_.begin[1] + shape[1] * (z - extent_.begin[2]));
          std::memcpy(&samples_[static_cast<std::size_t>(to)], bytes.data(), sizeof(float));
          bytes = bytes.subspan(sizeof(float));
        }
      }
    }
    return Status::Ok();
  }
  Status LevelEnd(const query::LevelExtent&) override { return Status::Ok(); }
  std::vector<float>& samples() { return samples_; }

 private:
  int level_;
  Box extent_;
  std::vector<float> samples_;
};

}  // namespace

std::vector<float> MakeSamples(const Index3& dims, std::uint64_t step, bool missing) {
  std::mt19937 random(static_cast<unsigned>(step) + 17);
  std::uniform_real_distribution<float> noise(-0.1f, 0.1f);
  std::vector<float> samples;
  for (std::int64_t z = 0; z < dims[2]; ++z) {
    for (std::int64_t y = 0; y < dims[1]; ++y) {
      for (std::int64_t x = 0; x < dims[0]; ++x) {
        samples.push_back(std::sin(0.3f * static_cast<float>(x)) + 0.05f * static_cast<float>(y * z) +
                          static_cast<float>(step) + noise(random));
        if (missing && x >= 5 && x < 17 && y >= 3 && y < 19) samples.back() = NAN;
        if (missing && (x + 5 * y + 7 * z) % 41 == 0) samples.back() = -INFINITY;
      }
    }
  }
  return samples;
}

void MakeDataset(const fs::path& path, const DatasetRecipe& recipe) {
  const PatchGrid grid = Require(PatchGrid::Create(recipe.dims, recipe.patch));
  const auto publisher = Require(writer::Publisher::Open(path, fs::exists(path)));
  DatasetDescription dataset = publisher->existing().value_or(DatasetDescription{});
  dataset.grids[0] = GridOf(recipe);
  dataset.order = recipe.order;
  if (!dataset.FindField(recipe.field))
    dataset.fields.push_back({recipe.field,
                              DataType::kFloat32,
                              "Pa",
                              recipe.coder,
                              recipe.lossless ? Bound(Lossless{}) : Bound(AbsoluteBound{recipe.tolerance}),
                              {},
                              recipe.rougher});
  if (!recipe.time_unit.units.empty()) dataset.time_unit = recipe.time_unit;
  for (const std::uint64_t number : recipe.steps) {
    StepDescription step;
    step.step = number;
    if (!recipe.time_unit.units.empty()) step.time = static_cast<double>(number) / 2;
    step.fields.push_back(
        WriteField(recipe, grid, number, *dataset.FindField(recipe.field), publisher.get()));
    Require(publisher->PublishStep(dataset, step));
  }
}

format::PatchRows AllRows(const Dataset& dataset, std::size_t subfile) {
  TableWalk walk = Require(dataset.tables().Walk(0, 0, subfile));
  format::PatchRows rows;
  for (std::uint64_t block = 0; block < walk.blocks(); ++block) {
    Require(walk.GoTo(block));
    rows.insert(rows.end(), walk.rows().begin(), walk.rows().end());
  }
  return rows;
}

Box RandomBox(const Index3& dims, std::mt19937* random) {
  const auto below = [random](std::int64_t limit) {
    return static_cast<std::int64_t>((*random)() % static_cast<std::uint64_t>(limit));
  };
  Box box;
  for (std::size_t a = 0; a < 3; ++a) {
    box.begin[a] = below(dims[a]);
    box.end[a] = box.begin[a] + 1 + below(dims[a] - box.begin[a]);
  }
  return box;
}

Result<std::vector<float>> TryReadAll(const Dataset& dataset, const query::ReadRequest& request,
                                      const query::PatchLocator* locator) {
  QUARRY_ASSIGN_OR_RETURN(const query::ReadPlan plan, dataset.Plan(request, locator));
  ReadEngine engine(std::uint64_t{64} << 20, 2);
  CollectingSink sink(plan.levels.back());
  QUARRY_RETURN_IF_ERROR(ExecuteRead(
      dataset, plan, &engine, [] { return false; }, &sink));
  return std::move(sink.samples());
}

std::vector<float> ReadAll(const Dataset& dataset, const query::ReadRequest& request,
                           const query::PatchLocator* locator) {
  return Require(TryReadAll(dataset, request, locator));
}

}  // namespace quarry::testing
