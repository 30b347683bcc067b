#include "quarry/format/pack.h"

#include <algorithm>
#include <array>
#include <optional>

#include "quarry/base/checksum.h"
#include "quarry/base/numbers.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/format/byte_reader.h"
#include "quarry/format/manifest.h"
#include "quarry/format/subfile.h"

namespace quarry::format {
namespace {

constexpr std::string_view kPrefix = "pack-";
constexpr std::string_view kSuffix = ".qsp";
/// [bytes] Most of a name that file systems take.
constexpr std::size_t kMaxName = 255;

using Magic = std::array<unsigned char, 8>;
constexpr Magic kBeginMagic = {0x89, 'Q', 'S', 'P', '\r', '\n', 0x1a, '\n'};
constexpr Magic kEndMagic = {'Q', 'S', 'P', 'e', 'n', 'd', '\r', '\n'};

void Put(const Magic& magic, Bytes* out) {
  for (const unsigned char byte : magic) out->push_back(static_cast<std::byte>(byte));
}

bool StartsWith(ByteSpan bytes, const Magic& magic) {
  const auto same = [](unsigned char a, std::byte b) { return static_cast<std::byte>(a) == b; };
  return std::equal(magic.begin(), magic.end(), bytes.begin(), same);
}

std::string RunText(std::uint64_t distance, std::uint64_t times) {
  if (distance == 0) return {};
  return times == 1 ? fmt::format("_{}", distance) : fmt::format("_{}x{}", distance, times);
}

/// A number of a name: decimal, without zeros in front.
std::optional<std::uint64_t> NumberOf(std::string_view text) {
  std::uint64_t number = 0;
  const bool plain = !text.empty() && (text.size() == 1 || text.front() != '0');
  return plain && ReadNumber(text, &number) ? std::optional(number) : std::nullopt;
}

/// Takes the part up to `end` off the front of a text, or all of it.
std::string_view TakeUpTo(char end, std::string_view* text) {
  const std::size_t at = std::min(text->find(end), text->size());
  const std::string_view part = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return part;
}

/// Adds the steps of "100x2" behind the last one. @returns false: that is not possible
bool AddRun(std::string_view text, std::vector<StepRun>* runs, std::uint64_t* steps) {
  const bool repeated = text.find('x') != std::string_view::npos;
  const std::optional<std::uint64_t> distance = NumberOf(TakeUpTo('x', &text));
  const std::optional<std::uint64_t> times = repeated ? NumberOf(text) : 1;
  if (!distance || !times || *distance == 0 || *times < (repeated ? 2u : 1u)) return false;
  if (*times > kMaxPackSteps - *steps) return false;
  const std::uint64_t last = runs->back().last();
  if (*distance > (UINT64_MAX - last) / *times) return false;
  *steps += *times;
  runs->push_back({last + *distance, *distance, *times});
  return true;
}

/// "pressure/0000.qsf" and nothing else: the name becomes a part of a path.
bool IsSubfileName(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos || !CheckFieldName(name.substr(0, slash)).ok()) return false;
  const std::string_view file = std::string_view(name).substr(slash + 1);
  constexpr std::string_view kEnd = ".qsf";
  std::uint64_t number = 0;
  return file.ends_with(kEnd) && ReadNumber(file.substr(0, file.size() - kEnd.size()), &number) &&
         SubfileName(number) == file;
}

/// Reads a table, whose offsets follow from the sizes.
class TableReader {
 public:
  TableReader(ByteSpan bytes, const PackFooter& footer) : reader_(bytes), end_(footer.table_offset) {}

  Result<PackTable> Read() {
    ReadNames();
    const std::uint64_t steps = reader_.Varint(kMaxPackSteps);
    for (std::uint64_t s = 0; reader_.ok() && s < steps; ++s) ReadStep();
    if (!reader_.ok() || !reader_.at_end() || steps == 0 || at_ != end_)
      return DataLoss("the table of the pack has impossible values; the pack is damaged");
    return std::move(table_);
  }

 private:
  void ReadNames() {
    const std::uint64_t count = reader_.Varint(kMaxPackFiles);
    for (std::uint64_t n = 0; reader_.ok() && n < count; ++n) {
      const ByteSpan bytes = reader_.Take(reader_.Varint(kMaxName));
      std::string name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (!IsSubfileName(name) || (n > 0 && name <= table_.names.back())) reader_.Fail();
      table_.names.push_back(std::move(name));
    }
  }

  void ReadStep() {
    PackTable::Step step;
    if (table_.steps.empty()) {
      step.step = reader_.Varint(UINT64_MAX);
    } else {
      const std::uint64_t last = table_.steps.back().step;
      const std::uint64_t between = reader_.Varint(UINT64_MAX);
      if (between >= UINT64_MAX - last) reader_.Fail();
      step.step = last + between + 1;
    }
    step.size = reader_.Varint(kPackedManifestLimit);
    step.stored = reader_.Varint(step.size);
    if (step.stored == 0 || (table_.steps.empty() && step.stored != step.size)) reader_.Fail();
    step.offset = TakeBytes(step.stored);
    const std::uint64_t files = reader_.Varint(kMaxPackFiles - files_);
    files_ += files;
    std::uint64_t name = 0;
    for (std::uint64_t f = 0; reader_.ok() && f < files; ++f) {
      name += reader_.Varint(kMaxPackFiles) + (f > 0 ? 1 : 0);
      const std::uint64_t size = reader_.Varint(end_);
      if (name >= table_.names.size() || size == 0) reader_.Fail();
      step.files.push_back({static_cast<std::uint32_t>(name), TakeBytes(size), size});
    }
    table_.steps.push_back(std::move(step));
  }

  /// The offset of the next file, which has so many bytes.
  std::uint64_t TakeBytes(std::uint64_t size) {
    const std::uint64_t offset = at_;
    if (size > end_ - at_) {
      reader_.Fail();
    } else {
      at_ += size;
    }
    return offset;
  }

  ByteReader reader_;
  const std::uint64_t end_;
  std::uint64_t at_ = kPackBegin;
  std::uint64_t files_ = 0;
  PackTable table_;
};

Bytes EncodeTable(const PackTable& table) {
  Bytes out;
  entropy::PutVarint(table.names.size(), &out);
  for (const std::string& name : table.names) {
    entropy::PutVarint(name.size(), &out);
    for (const char c : name) out.push_back(static_cast<std::byte>(c));
  }
  entropy::PutVarint(table.steps.size(), &out);
  for (std::size_t s = 0; s < table.steps.size(); ++s) {
    const PackTable::Step& step = table.steps[s];
    entropy::PutVarint(s == 0 ? step.step : step.step - table.steps[s - 1].step - 1, &out);
    for (const std::uint64_t number : {step.size, step.stored, std::uint64_t{step.files.size()}})
      entropy::PutVarint(number, &out);
    for (std::size_t f = 0; f < step.files.size(); ++f) {
      entropy::PutVarint(f == 0 ? step.files[f].name : step.files[f].name - step.files[f - 1].name - 1, &out);
      entropy::PutVarint(step.files[f].size, &out);
    }
  }
  return out;
}

}  // namespace

bool PackName::Add(std::uint64_t step) {
  PackName longer = *this;
  ++longer.steps_;
  longer.last_ = step;
  if (steps_ == 0) {
    longer.front_ = fmt::format("{}{}", kPrefix, step);
  } else if (step - last_ == distance_) {
    ++longer.times_;
  } else {
    longer.front_ += RunText(distance_, times_);
    longer.distance_ = step - last_;
    longer.times_ = 1;
  }
  if (longer.steps_ > kMaxPackSteps || longer.text().size() > kMaxName) return false;
  *this = std::move(longer);
  return true;
}

std::string PackName::text() const {
  return fmt::format("{}{}{}", front_, RunText(distance_, times_), kSuffix);
}

bool IsPackName(std::string_view name) { return name.starts_with(kPrefix) && name.ends_with(kSuffix); }

Result<std::vector<StepRun>> StepsOfPack(std::string_view name) {
  const auto wrong = [&] {
    return DataLoss("\"{}\" is not the name of a pack; move the file elsewhere, or give it back its name",
                    name);
  };
  if (!IsPackName(name) || name.size() > kMaxName || name.size() < kPrefix.size() + kSuffix.size())
    return wrong();
  std::string_view text = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  if (text.ends_with('_')) return wrong();
  const std::optional<std::uint64_t> first = NumberOf(TakeUpTo('_', &text));
  if (!first) return wrong();
  std::vector<StepRun> runs = {{*first, 1, 1}};
  std::uint64_t steps = 1;
  while (!text.empty()) {
    if (!AddRun(TakeUpTo('_', &text), &runs, &steps)) return wrong();
  }
  return runs;
}

const PackTable::Step* PackTable::FindStep(std::uint64_t step) const {
  const auto found = std::ranges::lower_bound(steps, step, {}, &Step::step);
  return found != steps.end() && found->step == step ? &*found : nullptr;
}

const PackTable::File* PackTable::FindFile(const Step& step, std::string_view name) const {
  const auto number = std::ranges::lower_bound(names, name);
  if (number == names.end() || *number != name) return nullptr;
  const auto wanted = static_cast<std::uint32_t>(number - names.begin());
  const auto found = std::ranges::lower_bound(step.files, wanted, {}, &File::name);
  return found != step.files.end() && found->name == wanted ? &*found : nullptr;
}

std::uint64_t MemoryOf(const PackTable& table) {
  std::uint64_t bytes = sizeof(table) + table.steps.capacity() * sizeof(PackTable::Step);
  for (const PackTable::Step& step : table.steps) bytes += step.files.capacity() * sizeof(PackTable::File);
  for (const std::string& name : table.names) bytes += sizeof(name) + name.capacity();
  return bytes;
}

Bytes EncodePackBegin() {
  Bytes out;
  Put(kBeginMagic, &out);
  PutLittleEndian(&out, kMajorVersion);
  PutLittleEndian(&out, kMinorVersion);
  PutLittleEndian(&out, std::uint32_t{0});
  return out;
}

Bytes EncodePackEnd(const PackTable& table, std::uint64_t table_offset) {
  Bytes out = EncodeTable(table);
  const std::uint64_t size = out.size();
  Bytes footer;
  for (const std::uint64_t number : {table_offset, size, Checksum(out), table_offset + size + kPackFooter})
    PutLittleEndian(&footer, number);
  PutLittleEndian(&footer, Checksum(footer));
  Put(kEndMagic, &footer);
  out.insert(out.end(), footer.begin(), footer.end());
  return out;
}

Status CheckPackBegin(ByteSpan bytes) {
  if (bytes.size() < kPackBegin || !StartsWith(bytes, kBeginMagic))
    return DataLoss("it begins with other bytes than a pack");
  const auto version = GetLittleEndian<std::uint16_t>(bytes.data() + kBeginMagic.size());
  if (version == kMajorVersion) return Status::Ok();
  return DataLoss("it has version {}, this program reads {}; use a newer Quarry", version, kMajorVersion);
}

Result<PackFooter> DecodePackFooter(ByteSpan bytes, std::uint64_t file_size) {
  constexpr std::size_t kChecked = 32;
  if (bytes.size() != kPackFooter || !StartsWith(bytes.subspan(kPackFooter - kEndMagic.size()), kEndMagic))
    return DataLoss("it ends with other bytes than a pack; it is truncated");
  LittleEndianReader reader(bytes.data());
  PackFooter footer;
  for (std::uint64_t* const number :
       {&footer.table_offset, &footer.table_size, &footer.table_checksum, &footer.file_size})
    *number = reader.Get<std::uint64_t>();
  const auto stored = reader.Get<std::uint64_t>();
  if (const std::uint64_t computed = Checksum(bytes.first(kChecked)); stored != computed)
    return DataLoss("checksum {} of the footer stored, {} computed", ChecksumText(stored),
                    ChecksumText(computed));
  const bool fits = footer.file_size == file_size && footer.table_size <= kPackTableLimit &&
                    footer.table_offset >= kPackBegin && footer.table_size <= file_size - kPackFooter &&
                    footer.table_offset == file_size - kPackFooter - footer.table_size;
  if (fits) return footer;
  return DataLoss("the footer has a table of {} bytes at {} in a file of {}; the pack has {} bytes",
                  footer.table_size, footer.table_offset, footer.file_size, file_size);
}

Result<PackTable> DecodePackTable(ByteSpan bytes, const PackFooter& footer) {
  if (const std::uint64_t computed = Checksum(bytes); computed != footer.table_checksum)
    return DataLoss("checksum {} of the table stored, {} computed", ChecksumText(footer.table_checksum),
                    ChecksumText(computed));
  return TableReader(bytes, footer).Read();
}

}  // namespace quarry::format
