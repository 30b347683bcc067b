// Writes a corpus for the fuzzers with the encoders. Usage: fuzz_seeds FOLDER

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "quarry/base/checksum.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/format/manifest.h"
#include "quarry/format/patch_table.h"
#include "tests/fuzz/manifest_input.h"
#include "tests/fuzz/masked_coder.h"
#include "tests/fuzz/payload_input.h"
#include "tests/fuzz/seeds.h"
#include "tests/testing/generated_patch.h"

namespace quarry::fuzz {
namespace {

using testing::GeneratedPatch;
using testing::Missing;
using testing::MissingValue;
using testing::PatchSpec;
using testing::Random;
using testing::Scale;
using testing::Shape;

constexpr std::size_t kSeedsPerCoder = 64;
constexpr std::size_t kLargestSeed = 4000;

/// Patches of all kinds, mostly small: few bytes reach most of a decoder.
bool AddPayloads(const std::string& folder, const std::string& target, const PatchCoder& coder, bool masked) {
  Corpus corpus(folder, target);
  const std::vector<DataType> types = SupportedTypes(coder);
  Random random(2024);
  GeneratedPatch patch;
  for (std::size_t i = 0; i < kSeedsPerCoder;) {
    PatchSpec spec = testing::RandomSpec(types[i % types.size()], 64 << (i * 7 / kSeedsPerCoder), &random);
    for (std::int64_t& extent : spec.layout.shape) extent = std::min<std::int64_t>(extent, 64);
    spec.shape = static_cast<Shape>(i % static_cast<std::size_t>(Shape::kCount));
    if (masked && spec.missing == Missing::kNone) spec.missing = Missing::kCoast;
    testing::Generate(spec, &patch);
    // Some with tolerance 0, the others with indices of all sizes.
    const double unit = testing::ValueRange(spec.layout.type, patch) / static_cast<double>(1 << 20);
    const double any = std::numeric_limits<double>::max();  // any error of samples that are discarded
    const double tolerance = masked       ? any
                             : i % 8 == 0 ? 0
                                          : unit * static_cast<double>(1 << random.Below(20));
    const Result<EncodedPatch> encoded =
        EncodePatch(coder, spec.layout, patch.samples, patch.fill, tolerance);
    if (!encoded.ok()) {
      fmt::print(stderr, "{}: {}\n", ToString(spec), encoded.status().message());
      return false;
    }
    const Bytes input = WriteInput(spec.layout, types, encoded->levels, encoded->mask_levels);
    if (input.size() > kLargestSeed) continue;
    corpus.Add(fmt::format("{:02}", i++), input);
  }
  return corpus.ok();
}

/// Patches in two to four layers, the last of some of them exact.
bool AddLayers(const std::string& folder, const std::string& target, const PatchCoder& coder) {
  Corpus corpus(folder, target);
  const std::vector<DataType> types = SupportedTypes(coder);
  Random random(2025);
  GeneratedPatch patch;
  for (std::size_t i = 0; i < kSeedsPerCoder / 2;) {
    PatchSpec spec = testing::RandomSpec(types[i % types.size()], 1500, &random);
    for (std::int64_t& extent : spec.layout.shape) extent = std::min<std::int64_t>(extent, 64);
    const bool exact = i / types.size() % 2 == 0;
    if (exact) spec.scale = i / types.size() % 4 == 0 ? Scale::kFloat32 : Scale::kDecimal;
    testing::Generate(spec, &patch);
    double tolerance = testing::ValueRange(spec.layout.type, patch) / 8;
    std::vector<double> tolerances;
    for (std::size_t layers = 2 + i % 3; tolerances.size() < layers; tolerance /= 64)
      tolerances.push_back(tolerance);
    if (exact) tolerances.back() = 0;
    const Result<EncodedPatch> encoded =
        EncodePatch(coder, spec.layout, patch.samples, patch.fill, tolerances);
    if (!encoded.ok()) {
      fmt::print(stderr, "{}: {}\n", ToString(spec), encoded.status().message());
      return false;
    }
    const Bytes input = WriteInput(spec.layout, types, encoded->levels, encoded->mask_levels);
    if (input.size() > 2 * kLargestSeed) continue;
    corpus.Add(fmt::format("layers-{:02}", i++), input);
  }
  return corpus.ok();
}

/// Patches of which the last layer is a list: few numbers of both signs, in no order.
template <typename T>
bool AddListedLayers(const std::string& folder, const std::string& target, const PatchCoder& coder) {
  Corpus corpus(folder, target);
  const std::vector<DataType> types = SupportedTypes(coder);
  constexpr DataType kType = sizeof(T) == 4 ? DataType::kFloat32 : DataType::kFloat64;
  Random random(2027);
  for (int i = 0; i < 3; ++i) {
    const PatchLayout layout{kType, {11, 8, 1 + 3 * i}, 1 + 2 * i};
    std::vector<T> samples(static_cast<std::size_t>(Volume(layout.shape)));
    for (T& sample : samples) sample = T(random.OneIn(2) ? 1 : -1) / static_cast<T>(3 + random.Below(40));
    for (std::size_t k = 0; i == 1 && k < samples.size(); k += 6)
      samples[k] = std::numeric_limits<T>::quiet_NaN();
    const Result<EncodedPatch> encoded = EncodePatch(coder, layout, std::as_bytes(std::span(samples)),
                                                     std::nullopt, std::vector<double>{0.1, 1e-3, 0});
    const auto coarsest = static_cast<std::size_t>(PatchParts{layout.levels, 3}.Of(2, layout.levels - 1));
    constexpr std::byte kListed{0x04};
    if (!encoded.ok() || encoded->levels[coarsest].front() != kListed) {
      fmt::print(stderr, "the last layer of {} is no list\n", ToString(layout.shape));
      return false;
    }
    corpus.Add(fmt::format("listed-{}-{}", Name(kType), i),
               WriteInput(layout, types, encoded->levels, encoded->mask_levels));
  }
  return corpus.ok();
}

/// Patches that do not depend on an axis: without a mask, with one that does not either, and with one that
/// does.
bool AddRepeats(const std::string& folder, const std::string& target, const PatchCoder& coder) {
  Corpus corpus(folder, target);
  const std::vector<DataType> types = SupportedTypes(coder);
  for (int i = 0; i < 9; ++i) {
    const auto axis = static_cast<std::size_t>(i % 3);
    const PatchLayout layout{DataType::kFloat32, {9, 8, 7}, 1 + i / 3};
    std::vector<float> samples;
    for (std::int64_t z = 0; z < layout.shape[2]; ++z) {
      for (std::int64_t y = 0; y < layout.shape[1]; ++y) {
        for (std::int64_t x = 0; x < layout.shape[0]; ++x) {
          Index3 at = {x, y, z};
          at[axis] = 0;
          const float sample = std::sqrt(static_cast<float>(at[0] + 9 * at[1] + 70 * at[2]));
          const bool missing = i / 3 == 1 ? sample < 7 : i / 3 == 2 && x + y + z == 8;
          samples.push_back(missing ? std::numeric_limits<float>::quiet_NaN() : sample);
        }
      }
    }
    std::vector<double> tolerances = {0.01};
    if (coder.traits().most_layers > 1) tolerances.push_back(0);
    const Result<EncodedPatch> encoded =
        EncodePatch(coder, layout, std::as_bytes(std::span(samples)), std::nullopt, tolerances);
    if (!encoded.ok()) {
      fmt::print(stderr, "a patch that repeats: {}\n", encoded.status().message());
      return false;
    }
    corpus.Add(fmt::format("repeats-{}", i),
               WriteInput(layout, types, encoded->levels, encoded->mask_levels));
  }
  return corpus.ok();
}

/// Patches for the coders with safeguards, by their places in safeguards_target.cc.
bool AddSafeguards(const std::string& folder) {
  Corpus corpus(folder, "safeguards");
  constexpr CoderId kCoders[] = {CoderId::kInterpolateZeros, CoderId::kInterpolateSigns,
                                 CoderId::kInterpolateRelative};
  Random random(2026);
  GeneratedPatch patch;
  for (std::size_t i = 0; i < kSeedsPerCoder;) {
    const std::size_t place = i % std::size(kCoders);
    const PatchCoder& coder = *FindCoder(kCoders[place]);
    const std::vector<DataType> types = SupportedTypes(coder);
    PatchSpec spec = testing::RandomSpec(types[i % types.size()], 1500, &random);
    for (std::int64_t& extent : spec.layout.shape) extent = std::min<std::int64_t>(extent, 64);
    if (i % 2 == 0) spec.shape = Shape::kMostlyZero;
    testing::Generate(spec, &patch);
    const double ratio = 1.0 / static_cast<double>(2 << random.Below(20));
    const double range = coder.traits().bound_is_relative ? 1 : testing::ValueRange(spec.layout.type, patch);
    const Result<EncodedPatch> encoded =
        EncodePatch(coder, spec.layout, patch.samples, patch.fill, i % 8 == 0 ? 0 : ratio * range);
    if (!encoded.ok()) {
      fmt::print(stderr, "{}: {}\n", ToString(spec), encoded.status().message());
      return false;
    }
    Bytes input = {static_cast<std::byte>(place)};
    const Bytes rest = WriteInput(spec.layout, types, encoded->levels, encoded->mask_levels);
    input.insert(input.end(), rest.begin(), rest.end());
    if (input.size() > kLargestSeed) continue;
    corpus.Add(fmt::format("{:02}", i++), input);
  }
  return corpus.ok();
}

/// Samples that move a little from those of a patch, and stay as they are where none is there.
Bytes Moved(DataType type, const Bytes& samples, std::optional<std::uint64_t> fill, Random* random) {
  Bytes moved = samples;
  const std::size_t size = SizeOf(type);
  // A sample in five is that of a neighbour.
  for (std::size_t i = size; i + size <= moved.size(); i += size) {
    if (random->Below(5) == 0 && !fill)
      std::copy_n(samples.begin() + static_cast<std::ptrdiff_t>(i - size), size,
                  moved.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return moved;
}

/// Patches that refer to one or two steps, see references_target.cc.
bool AddReferences(const std::string& folder) {
  Corpus corpus(folder, "references");
  constexpr std::size_t kHeaderBytes = 5;
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  const std::vector<DataType> types = SupportedTypes(coder);
  Random random(2027);
  GeneratedPatch patch;
  for (std::size_t i = 0; i < kSeedsPerCoder;) {
    PatchSpec spec = testing::RandomSpec(types[i % types.size()], 1500, &random);
    for (std::int64_t& extent : spec.layout.shape) extent = std::min<std::int64_t>(extent, 64);
    testing::Generate(spec, &patch);
    const std::size_t references = 1 + i % 2;
    std::vector<double> tolerances(1 + i / 2 % 2, testing::ValueRange(spec.layout.type, patch) / 64);
    if (tolerances.size() > 1) tolerances.back() = i % 8 == 2 ? 0 : tolerances.front() / 64;
    Bytes sizes = {static_cast<std::byte>(references - 1)};
    Bytes header, rest;
    DecodedPatch reference;
    bool refers = false;
    for (std::size_t step = 0; step <= references; ++step) {
      const Bytes samples =
          step == 0 ? patch.samples : Moved(spec.layout.type, patch.samples, patch.fill, &random);
      DecodedPatch decoded;
      const Result<EncodedPatch> encoded =
          EncodePatch(coder, spec.layout, samples,
                      {patch.fill, tolerances, step == references ? &reference : nullptr, &decoded});
      if (!encoded.ok()) {
        fmt::print(stderr, "{}: {}\n", ToString(spec), encoded.status().message());
        return false;
      }
      refers = encoded->refers;
      const Bytes input = WriteInput(spec.layout, types, encoded->levels, encoded->mask_levels);
      header.assign(input.begin(), input.begin() + kHeaderBytes);
      rest.insert(rest.end(), input.begin() + kHeaderBytes, input.end());
      if (step < references) PutLittleEndian(&sizes, static_cast<std::uint16_t>(input.size() - kHeaderBytes));
      reference =
          step == 0 ? std::move(decoded) : MeanOf(spec.layout.type, std::move(reference), std::move(decoded));
    }
    Bytes input = sizes;
    input.insert(input.end(), header.begin(), header.end());
    input.insert(input.end(), rest.begin(), rest.end());
    if (!refers || input.size() > 3 * kLargestSeed) continue;
    corpus.Add(fmt::format("{:02}", i++), input);
  }
  return corpus.ok();
}

/// A row of version 1: without the count of valid samples and the coverage.
void AppendOldRow(const format::PatchEntry& row, Bytes* table) {
  Bytes bytes;
  row.EncodeTo(&bytes);
  const auto copy = [&](std::size_t begin, std::size_t size) {
    table->insert(table->end(), bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                  bytes.begin() + static_cast<std::ptrdiff_t>(begin + size));
  };
  copy(0, 24);
  for (std::size_t l = 0; l < row.levels.size(); ++l) copy(28 + 36 * l, 32);
}

/// The bytes of a table in blocks.
Bytes TableInBlocks(const format::SubfileHeader& header, const PatchGrid& grid,
                    std::vector<format::PatchEntry> rows) {
  std::uint64_t offset = format::SubfileHeader::kEncodedSize;
  format::ForEachPayload(header, rows.size(), [&](std::size_t row, int part) {
    format::LevelEntry& level = rows[row].levels[static_cast<std::size_t>(part)];
    level.offset = offset;
    offset += level.size;
  });
  format::TableEncoder encoder(header, grid, offset);
  Bytes table;
  for (const format::PatchEntry& row : rows) encoder.Put(row, &table);
  encoder.Finish(&table);
  table.resize(table.size() - format::SubfileFooter::kEncodedSize);
  return table;
}

/// Header and table of a subfile; `repairs` selects what the target repairs.
/// @param block_bits  of the header
/// @param order       if not the usual one
void AddSubfile(int levels, int version, int repairs, Corpus* corpus, int block_bits = 0,
                std::optional<format::PayloadOrder> order = {}) {
  format::SubfileHeader header;
  header.dims = {200, 70, 33};
  header.patch = {64, 64, 32};
  header.levels = levels;
  header.type = DataType::kUint16;
  header.coder = CoderId::kInterpolate;
  header.SetOrder(order.value_or(levels == 1 ? format::PayloadOrder::kPatch : format::PayloadOrder::kLevel));
  header.field_name = "pressure";
  header.mask = 0x0123456789abcdef;
  const PatchGrid grid = *PatchGrid::Create(header.dims, header.patch);
  Bytes table;
  std::vector<format::PatchEntry> rows;
  std::uint64_t payload = 0;
  for (const std::int64_t index : grid.MortonOrder()) {
    format::PatchEntry row;
    row.patch_index = static_cast<std::uint64_t>(index);
    row.valid = static_cast<std::uint32_t>(1 + row.patch_index);
    row.levels.resize(static_cast<std::size_t>(levels));
    for (format::LevelEntry& level : row.levels) level = {200 + row.patch_index, 10, 0.5f, 7, 1.0, 0.25f};
    if (version == 1) AppendOldRow(row, &table);
    if (version == 3) row.EncodeTo(&table);
    if (version == 4 && index % 3 == 0) {  // refers, and has no payload
      row.refers = true;
      for (format::LevelEntry& level : row.levels) level = {0, 0, 0, Checksum(ByteSpan()), 0, 1};
    }
    rows.push_back(row);
    payload += row.payload_bytes();
    ++header.patch_count;
  }
  if (version == 4) table = format::EncodePatchTable(rows, grid);
  header.block_bits = block_bits;
  if (block_bits > 0) table = TableInBlocks(header, grid, rows);
  format::SubfileFooter footer;
  footer.table_offset = version == 4 ? format::SubfileHeader::kEncodedSize + payload : 1000;
  footer.table_size = table.size();
  footer.table_checksum = Checksum(table);
  footer.file_size = footer.table_offset + table.size() + format::SubfileFooter::kEncodedSize;
  Bytes input(1, static_cast<std::byte>(repairs));
  header.EncodeTo(&input);
  input[1 + 8] = static_cast<std::byte>(version);
  footer.EncodeTo(&input);
  input.insert(input.end(), table.begin(), table.end());
  const std::string blocks = block_bits > 0 ? fmt::format("_blocks_{}", block_bits) : "";
  const std::string in_order = order ? fmt::format("_{}", format::NameOf(*order)) : "";
  corpus->Add(fmt::format("v{}_{}_levels_{}{}{}", version, levels, repairs, blocks, in_order), input);
}

bool AddSubfiles(const std::string& folder) {
  Corpus corpus(folder, "subfile");
  for (const int levels : {1, 4}) {
    for (const int repairs : {0, 7, 15}) {
      AddSubfile(levels, 3, repairs, &corpus);
      AddSubfile(levels, 4, repairs, &corpus);
      for (const int block_bits : {1, 3}) AddSubfile(levels, 4, repairs, &corpus, block_bits);
    }
    AddSubfile(levels, 1, 7, &corpus);
    for (const int block_bits : {0, 1})
      AddSubfile(levels, 4, 15, &corpus, block_bits, format::PayloadOrder::kCoarse);
  }
  return corpus.ok();
}

StepDescription ExampleStep() {
  StepDescription step;
  step.step = 12345678901;
  step.time = 0.125;
  FieldStepDescription field;
  field.name = "pressure";
  field.source = "dump \"quoted\" \xc3\xa9.raw";
  field.psnr = std::numeric_limits<double>::infinity();
  field.levels = {{0.1, 0.2, 3}, {0.4, 0.5, 6}, {0.7, 0.8, 9}};
  field.subfiles = {{"0000.qsf", 100, 12, {{0, 0, 0}, {91, 45, 7}}, 0x0123456789abcdef}};
  field.valid = 91 * 45 * 7;
  step.fields = {field, field};
  FieldStepDescription& masked = step.fields[1];
  masked.name = "salt";
  masked.valid = 12345;
  masked.mask = {0xfedcba9876543210, masked.subfiles};
  return step;
}

/// Two grids that share an axis, and one of everything that a dataset says besides samples.
DatasetDescription DatasetOfGrids() {
  DatasetDescription dataset = ManifestDataset();
  dataset.grids[0].axis_names = {"lon", "lat", "depth"};
  dataset.grids[0].axis_attributes[2] = {{"positive", "down"}};
  dataset.grids.push_back(dataset.grids[0]);
  GridDescription& second = dataset.grids[1];
  second.dims = {91, 1, 1};
  second.patch = {32, 1, 1};
  second.has_axis = {true, false, false};
  dataset.grids[0].unplaced = second.unplaced = {true, false, false};
  dataset.grids[1].position_types[0] = dataset.grids[0].position_types[0] = DataType::kFloat32;
  for (const bool imaginary : {false, true}) {
    FieldDescription part = dataset.fields[0];
    part.complex = ComplexPart{"psi", imaginary};
    part.name = ComplexFieldName(*part.complex);
    part.grid = 1;
    part.still = part.coordinate = true;
    part.number = static_cast<std::uint32_t>(dataset.fields.size()) + 3;
    dataset.fields.push_back(part);
  }
  dataset.fields[0].attributes = {{"levels", AttributeNumbers{DataType::kInt16, true, {1.0, 2.0}}},
                                  {"names", std::vector<std::string>{"a", "b"}},
                                  {"all", JsonText{"[1, null, {\"a\": true}]"}}};
  dataset.attributes = {{"title", "all"}};
  dataset.time_name = "time";
  dataset.time_attributes = {{"axis", "T"}};
  dataset.texts = {{"lon", 1, 0, std::vector<std::string>(91, "here"), {{"long_name", "place"}}},
                   {"region", 0, {}, {"all"}, {}}};
  return dataset;
}

bool AddManifests(const std::string& folder) {
  Corpus corpus(folder, "manifest");
  const std::string of_grids = std::string(1, 2) + format::EncodeManifest(DatasetOfGrids());
  corpus.Add("dataset_of_grids", std::as_bytes(std::span(of_grids)));
  StepDescription fields = ExampleStep();
  for (const char* name : {"label", "new"}) {
    fields.fields.push_back(fields.fields[0]);
    fields.fields.back().name = name;
  }
  const std::string in_sections =
      std::string(1, 3) + format::EncodeManifest(fields, {.whole = 0, .section = 1500});
  corpus.Add("step_in_sections", std::as_bytes(std::span(in_sections)));
  const std::string texts[] = {format::EncodeManifest(ManifestDataset()),
                               format::EncodeManifest(ExampleStep())};
  for (int step = 0; step < 2; ++step) {
    for (const int repair : {0, 2}) {
      const std::string input = std::string(1, static_cast<char>(step | repair)) + texts[step];
      corpus.Add(fmt::format("{}_{}", step == 0 ? "dataset" : "step", repair == 0 ? "as_it_is" : "repaired"),
                 std::as_bytes(std::span(input)));
    }
  }
  return corpus.ok();
}

bool WriteAll(const std::string& folder) {
  return AddPayloads(folder, "wavelet_zfp", *FindCoder(CoderId::kWaveletZfp), false) &&
         AddPayloads(folder, "interpolate", *FindCoder(CoderId::kInterpolate), false) &&
         AddLayers(folder, "interpolate", *FindCoder(CoderId::kInterpolate)) &&
         AddListedLayers<float>(folder, "interpolate", *FindCoder(CoderId::kInterpolate)) &&
         AddListedLayers<double>(folder, "interpolate", *FindCoder(CoderId::kInterpolate)) &&
         AddSafeguards(folder) && AddReferences(folder) &&
         AddPayloads(folder, "lossless", *FindCoder(CoderId::kLossless), false) &&
         AddRepeats(folder, "wavelet_zfp", *FindCoder(CoderId::kWaveletZfp)) &&
         AddRepeats(folder, "interpolate", *FindCoder(CoderId::kInterpolate)) &&
         AddRepeats(folder, "lossless", *FindCoder(CoderId::kLossless)) &&
         AddPayloads(folder, "masked", BlankCoder(), true) && AddSubfiles(folder) && AddManifests(folder) &&
         AddMessages(folder) && AddRequests(folder) && AddFiles(folder) && AddDatasets(folder);
}

}  // namespace

Corpus::Corpus(const std::string& folder, const std::string& target) : folder_(folder + "/" + target) {
  std::filesystem::create_directories(folder_);
}

void Corpus::Add(const std::string& name, ByteSpan bytes) {
  std::ofstream out(fmt::format("{}/{}", folder_, name), std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  failed_ = failed_ || !out.flush();
}

}  // namespace quarry::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  if (argv[1][0] == '-') {
    fmt::print(stderr, "usage: fuzz_seeds FOLDER   writes the corpus below it\n");
    return 2;
  }
  if (quarry::fuzz::WriteAll(argv[1])) return 0;
  fmt::print(stderr, "fuzz_seeds: cannot write the corpus to {}\n", argv[1]);
  return 6;
}
