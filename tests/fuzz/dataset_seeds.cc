// Seeds of whole datasets: some fields of the golden dataset, each as a dataset; and of changes to an index.

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "quarry/dataset/dataset.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/format/patch_table.h"
#include "tests/fuzz/dataset_input.h"
#include "tests/fuzz/repair.h"
#include "tests/fuzz/seeds.h"

namespace quarry::fuzz {
namespace {

/// One of each kind: with a mask, in layers of accuracy, with safeguards, with references, of integers.
constexpr const char* kFields[] = {"holes", "near", "counts", "ladder", "dry", "ratios", "turns"};

Bytes BytesOf(const std::string& text) {
  const ByteSpan bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Adds the files of a folder. @returns false if one cannot be read
bool AddFolder(const Location& root, const std::string& folder, std::vector<InputFile>* files) {
  const Result<std::vector<FolderEntry>> entries = (root / folder).List();
  if (!entries.ok()) return false;
  for (const FolderEntry& entry : *entries) {
    const std::string path = folder + "/" + entry.name;
    Result<Bytes> bytes = (root / path).ReadWhole(1 << 20);
    if (!bytes.ok()) return false;
    files->push_back({path, *std::move(bytes)});
  }
  return true;
}

/// Puts the table of a subfile into blocks of 2^`bits` rows. @returns false if it cannot be read
bool PutInBlocks(int bits, Bytes* file, SubfileDescription* described) {
  auto header = format::SubfileHeader::DecodeFrom(*file);
  const std::size_t end = file->size() - format::SubfileFooter::kEncodedSize;
  const auto footer = format::SubfileFooter::DecodeFrom(ByteSpan(*file).subspan(end));
  if (!header.ok() || !footer.ok()) return false;
  const ByteSpan table = ByteSpan(*file).subspan(footer->table_offset, footer->table_size);
  const auto rows = format::DecodePatchTable(table, *header, *footer);
  if (!rows.ok()) return false;
  header->block_bits = bits;
  Bytes changed;
  header->EncodeTo(&changed);
  changed.insert(changed.end(), file->begin() + format::SubfileHeader::kEncodedSize,
                 file->begin() + static_cast<std::ptrdiff_t>(footer->table_offset));
  format::TableEncoder encoder(*header, *PatchGrid::Create(header->dims, header->patch), changed.size());
  for (const format::PatchEntry& row : *rows) encoder.Put(row, &changed);
  described->table_checksum = encoder.Finish(&changed).table_checksum;
  described->bytes = changed.size();
  *file = std::move(changed);
  return true;
}

/// A dataset of all steps of one field. Checksums of headers are not corrected.
/// @param block_bits  of the tables of the field; 0: as they are
/// @returns nothing if it cannot be read
std::optional<std::vector<InputFile>> FilesOf(const Dataset& dataset, std::size_t number,
                                              int block_bits = 0) {
  DatasetDescription description = dataset.description();
  description.fields = {description.fields[number]};
  const std::string& name = description.fields[0].name;
  std::vector<InputFile> files = {{"dataset.json", BytesOf(format::EncodeManifest(description))}};
  std::set<std::uint64_t> masks;
  for (const std::uint64_t number_of_step : dataset.steps()) {
    StepDescription step = **dataset.Step(number_of_step);
    std::erase_if(step.fields, [&](const FieldStepDescription& field) { return field.name != name; });
    if (step.fields.empty()) continue;
    const std::string folder = format::StepFolder(number_of_step);
    files.push_back({folder + "/step.json", {}});
    const std::size_t first = files.size();
    if (!AddFolder(dataset.root(), folder + "/" + name, &files)) return std::nullopt;
    std::uint64_t& stored = step.fields[0].stored_bytes;
    for (std::size_t f = first; f < files.size() && block_bits > 0; ++f) {
      stored -= files[f].bytes.size();
      if (!PutInBlocks(block_bits, &files[f].bytes, &step.fields[0].subfiles[f - first])) return std::nullopt;
      stored += files[f].bytes.size();
    }
    constexpr std::size_t kFieldNumber = 24;
    for (std::size_t f = first; f < files.size(); ++f) PutAt(std::uint32_t{0}, kFieldNumber, &files[f].bytes);
    files[first - 1].bytes = BytesOf(format::EncodeManifest(step));
    const std::uint64_t mask = step.fields[0].mask_name();
    if (mask != 0 && masks.insert(mask).second &&
        !AddFolder(dataset.root(), format::MaskFolder(mask), &files))
      return std::nullopt;
  }
  return files;
}

/// A dataset with all that it has. Nothing if it cannot be read.
std::optional<std::vector<InputFile>> FilesOf(const Dataset& dataset) {
  std::vector<InputFile> files = {{"dataset.json", BytesOf(format::EncodeManifest(dataset.description()))}};
  std::set<std::uint64_t> masks;
  for (const std::uint64_t number : dataset.steps()) {
    const std::shared_ptr<const StepDescription> step = *dataset.Step(number);
    const std::string folder = format::StepFolder(number);
    files.push_back({folder + "/step.json", BytesOf(format::EncodeManifest(*step))});
    for (const FieldStepDescription& field : step->fields) {
      if (!AddFolder(dataset.root(), folder + "/" + field.name, &files)) return std::nullopt;
      if (field.mask && masks.insert(field.mask->name).second &&
          !AddFolder(dataset.root(), format::MaskFolder(field.mask->name), &files))
        return std::nullopt;
    }
  }
  return files;
}

/// Golden datasets of their own: several grids, attributes of all kinds. Their fields lie on other grids than
/// those of the seeds above.
bool AddWholes(Corpus* corpus) {
  for (const char* name : {"v4-grids", "v4-attributes"}) {
    const auto path = std::filesystem::path(QUARRY_GOLDEN).parent_path() / name / "golden.quarry";
    const Result<std::shared_ptr<const Dataset>> dataset = Dataset::Open(path);
    const auto files = dataset.ok() ? FilesOf(**dataset) : std::nullopt;
    if (!files) return false;
    corpus->Add(name, WriteInputFiles(kRepairFiles, *files));
  }
  return true;
}

/// A golden dataset with its steps in a pack.
bool AddPacks(Corpus* corpus) {
  const Location root(std::filesystem::path(QUARRY_GOLDEN).parent_path() / "v4-pack" / "golden.quarry");
  const Result<Bytes> described = (root / "dataset.json").ReadWhole(format::kManifestLimit);
  const auto masks = (root / "masks").List();
  if (!described.ok() || !masks.ok()) return false;
  std::vector<InputFile> files = {{"dataset.json", *described}};
  if (!AddFolder(root, "steps", &files)) return false;
  for (const FolderEntry& mask : *masks) {
    if (!AddFolder(root, "masks/" + mask.name, &files)) return false;
  }
  corpus->Add("v4_pack", WriteInputFiles(kRepairFiles, files));
  return true;
}

/// A change to an index, see index_target.cc.
void PutChange(std::uint32_t at, std::uint64_t value, Bytes* input) {
  PutLittleEndian(input, at);
  PutLittleEndian(input, value);
}

bool AddIndices(const std::string& folder) {
  Corpus corpus(folder, "index");
  for (const unsigned form : {1u, 15u, 31u}) {
    corpus.Add(fmt::format("good_{}", form), Bytes{static_cast<std::byte>(form)});
    // The size of pages, the root of all, and pages that name themselves or lie in others.
    const std::pair<std::uint32_t, std::uint64_t> changes[] = {
        {40, 0}, {40, 3}, {128, 1}, {128, ~std::uint64_t{0}}, {4096 + 128, 2}, {8192 + 10, 0x1001'0010'0002}};
    int number = 0;
    for (const auto& [at, value] : changes) {
      Bytes input = {static_cast<std::byte>(form)};
      PutChange(at, value, &input);
      if (at < 4096) PutChange(4096 + at, value, &input);
      corpus.Add(fmt::format("change_{}_{}", number++, form), input);
    }
  }
  Bytes file(1, std::byte{0});
  file.resize(1 + 2 * 4096);
  corpus.Add("zeros", file);
  return corpus.ok();
}

}  // namespace

bool AddDatasets(const std::string& folder) {
  const Result<std::shared_ptr<const Dataset>> dataset =
      Dataset::Open(std::filesystem::path(QUARRY_GOLDEN) / "golden.quarry");
  if (!dataset.ok()) return false;
  Corpus corpus(folder, "dataset");
  for (const char* name : kFields) {
    const std::optional<std::size_t> number = (*dataset)->description().FindField(name);
    const auto files = number ? FilesOf(**dataset, *number) : std::nullopt;
    if (!files) return false;
    corpus.Add(fmt::format("v4_{}", name), WriteInputFiles(kRepairFiles, *files));
  }
  for (const int block_bits : {1, 2}) {
    const auto files = FilesOf(**dataset, *(*dataset)->description().FindField("near"), block_bits);
    if (!files) return false;
    corpus.Add(fmt::format("v4_near_blocks_{}", block_bits), WriteInputFiles(kRepairFiles, *files));
  }
  return AddWholes(&corpus) && AddPacks(&corpus) && corpus.ok() && AddIndices(folder);
}

}  // namespace quarry::fuzz
