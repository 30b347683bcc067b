#include "quarry/format/step_records.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "quarry/codec/coder.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/format/byte_reader.h"
#include "quarry/format/invariants.h"
#include "quarry/format/manifest.h"
#include "quarry/format/subfile.h"

namespace quarry::format {
namespace {

constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::uint64_t>::max();

// Bits of the first byte of a record.
constexpr unsigned kHasTime = 1;

/// Forms of a mask in a record.
enum class MaskForm : std::uint8_t { kNone, kAsBefore, kAnother };

/// Differences of either sign as small numbers.
std::uint64_t Folded(std::uint64_t difference) { return difference << 1 ^ (0 - (difference >> 63)); }
std::uint64_t Unfolded(std::uint64_t folded) { return folded >> 1 ^ (0 - (folded & 1)); }

/// Appends values. The functions of this class and of Taker go together: a template that is called with one
/// or the other says once what a record has.
class Putter {
 public:
  explicit Putter(Bytes* out) : out_(out) {}

  bool ok() const { return true; }

  void Count(std::uint64_t value, std::uint64_t /*most*/) { entropy::PutVarint(value, out_); }
  void Number(std::uint64_t value, std::uint64_t before) { entropy::PutVarint(Folded(value - before), out_); }
  void Fixed(std::uint64_t value) { PutLittleEndian(out_, value); }
  void Byte(unsigned value) { out_->push_back(static_cast<std::byte>(value)); }

  /// The bytes in which a number differs from the one before, without the zeros at both ends.
  void Real(double value, double before) {
    const auto bits = std::bit_cast<std::uint64_t>(value) ^ std::bit_cast<std::uint64_t>(before);
    if (bits == 0) return Byte(0);
    const auto skipped = static_cast<unsigned>(std::countl_zero(bits)) / 8;
    const unsigned count = 8 - skipped - static_cast<unsigned>(std::countr_zero(bits)) / 8;
    Byte(skipped << 4 | count);
    for (unsigned i = skipped; i < skipped + count; ++i)
      Byte(static_cast<unsigned>(bits >> (56 - 8 * i)) & 255);
  }

  /// The middle of a text, between what it has in common with the one before at its front and its back.
  void Text(const std::string& text, const std::string& before) {
    const std::size_t most = std::min(text.size(), before.size());
    std::size_t front = 0;
    while (front < most && text[front] == before[front]) ++front;
    std::size_t back = 0;
    while (front + back < most && text[text.size() - 1 - back] == before[before.size() - 1 - back]) ++back;
    const std::size_t middle = text.size() - front - back;
    for (const std::size_t size : {front, back, middle}) entropy::PutVarint(size, out_);
    const ByteSpan bytes = std::as_bytes(std::span(text)).subspan(front, middle);
    out_->insert(out_->end(), bytes.begin(), bytes.end());
  }

  template <typename List>
  void Size(const List& list, std::size_t most) {
    Count(list.size(), most);
  }

 private:
  Bytes* const out_;
};

/// Takes values off the front, as ByteReader does.
class Taker {
 public:
  explicit Taker(ByteSpan bytes) : reader_(bytes) {}

  bool ok() const { return reader_.ok(); }
  bool at_end() const { return reader_.at_end(); }
  void Fail() { reader_.Fail(); }

  void Count(std::uint64_t& value, std::uint64_t most) { value = reader_.Varint(most); }
  void Number(std::uint64_t& value, std::uint64_t before) {
    value = before + Unfolded(reader_.Varint(kAnyNumber));
  }
  void Fixed(std::uint64_t& value) { value = reader_.Number<std::uint64_t>(); }
  void Byte(unsigned& value) { value = reader_.Byte(); }

  void Real(double& value, double before) {
    const unsigned widths = reader_.Byte();
    const unsigned skipped = widths >> 4;
    if (skipped > sizeof(double)) Fail();
    const std::uint64_t bits = reader_.Bits(widths & 15, ok() ? sizeof(double) - skipped : 0);
    const std::uint64_t changed = skipped < sizeof(double) ? bits >> (8 * skipped) : 0;
    value = std::bit_cast<double>(std::bit_cast<std::uint64_t>(before) ^ changed);
  }

  void Text(std::string& text, const std::string& before) {
    std::uint64_t front = 0;
    std::uint64_t back = 0;
    std::uint64_t middle = 0;
    Count(front, before.size());
    Count(back, before.size() - front);
    Count(middle, kMaxRecordSource);
    const ByteSpan bytes = reader_.Take(ok() ? middle : 0);
    text.assign(before, 0, front);
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    text.append(before, before.size() - back);
    if (text.size() > kMaxRecordSource) Fail();
  }

  template <typename List>
  void Size(List& list, std::size_t most) {
    std::uint64_t size = 0;
    Count(size, most);
    list.resize(ok() ? size : 0);
  }

 private:
  ByteReader reader_;
};

/// @param first  stands before the first level in place of that of the record before; null: no other does
template <typename Coder, typename Levels>
void CodeLevels(Coder* coder, Levels& levels, const std::vector<LevelRecord>& before,
                const FieldRecord* first) {
  coder->Size(levels, kMaxLevels);
  for (std::size_t l = 0; l < levels.size() && coder->ok(); ++l) {
    LevelRecord last = l < before.size() ? before[l] : LevelRecord{};
    if (l == 0 && first != nullptr) {
      last.max_error = first->max_error;
      last.rmse = first->rmse;
    }
    coder->Real(levels[l].max_error, last.max_error);
    coder->Real(levels[l].rmse, last.rmse);
    coder->Number(levels[l].bytes, last.bytes);
    coder->Real(levels[l].coverage, last.coverage);
  }
}

void CodeMask(Putter* putter, const std::optional<MaskSummary>& mask,
              const std::optional<MaskSummary>& before) {
  const MaskForm form = !mask ? MaskForm::kNone : mask == before ? MaskForm::kAsBefore : MaskForm::kAnother;
  putter->Byte(static_cast<unsigned>(form));
  if (form != MaskForm::kAnother) return;
  putter->Fixed(mask->name);
  putter->Count(mask->bytes, kAnyNumber);
}

void CodeMask(Taker* taker, std::optional<MaskSummary>& mask, const std::optional<MaskSummary>& before) {
  unsigned form = 0;
  taker->Byte(form);
  if (form > static_cast<unsigned>(MaskForm::kAnother) ||
      (form == static_cast<unsigned>(MaskForm::kAsBefore) && !before)) {
    taker->Fail();
  } else if (form == static_cast<unsigned>(MaskForm::kAsBefore)) {
    mask = before;
  } else if (form == static_cast<unsigned>(MaskForm::kAnother)) {
    mask.emplace();
    taker->Fixed(mask->name);
    taker->Count(mask->bytes, kAnyNumber);
  }
}

/// A field of a step, but its name.
template <typename Coder, typename Summary>
void CodeField(Coder* coder, std::uint64_t step, Summary& field, const FieldSummary& before) {
  coder->Text(field.source, before.source);
  coder->Real(field.tolerance, before.tolerance);
  coder->Real(field.min, before.min);
  coder->Real(field.max, before.max);
  coder->Real(field.max_error, before.max_error);
  coder->Real(field.rmse, before.rmse);
  coder->Real(field.psnr, before.psnr);
  coder->Number(field.raw_bytes, before.raw_bytes);
  coder->Number(field.stored_bytes, before.stored_bytes);
  coder->Number(field.patches, before.patches);
  coder->Number(field.valid, before.valid);
  CodeMask(coder, field.mask, before.mask);
  coder->Size(field.references, 2);
  for (auto& reference : field.references) coder->Number(reference, step);
  CodeLevels(coder, field.levels, before.levels, &field);
  coder->Size(field.rougher, kMaxLayers - 1);
  for (std::size_t k = 0; k < field.rougher.size() && coder->ok(); ++k) {
    const LayerRecord last = k < before.rougher.size() ? before.rougher[k] : LayerRecord{};
    coder->Real(field.rougher[k].tolerance, last.tolerance);
    CodeLevels(coder, field.rougher[k].levels, last.levels, nullptr);
  }
}

bool Fits(const StepRecord& record) {
  return std::ranges::all_of(record.summary.fields, [](const FieldSummary& field) {
    return field.source.size() <= kMaxRecordSource && field.levels.size() <= kMaxLevels &&
           field.rougher.size() < kMaxLayers && field.references.size() <= 2;
  });
}

/// The fields that a decoder has seen, with their last records.
using Known = std::vector<FieldSummary>;

void TakeName(Taker* taker, Known* known, std::uint64_t* number) {
  taker->Count(*number, known->size());
  if (!taker->ok() || *number < known->size()) return;
  if (known->size() == kMaxFields) return taker->Fail();
  FieldSummary& added = known->emplace_back();
  taker->Text(added.name, "");
  if (!CheckFieldName(added.name).ok()) taker->Fail();
}

StepRecord TakeRecord(Taker* taker, const StepRecord* before, Known* known) {
  StepRecord record;
  StepSummary& summary = record.summary;
  unsigned bits = 0;
  taker->Byte(bits);
  if (bits > kHasTime) taker->Fail();
  const std::uint64_t next = before != nullptr ? before->summary.step + 1 : 0;
  taker->Count(summary.step, kAnyNumber - next);
  if (before != nullptr && next == 0) taker->Fail();  // after the last number that there is
  summary.step += next;
  taker->Number(record.manifest_bytes, before != nullptr ? before->manifest_bytes : 0);
  taker->Fixed(record.summary.checksum);
  if (bits == kHasTime)
    taker->Real(summary.time.emplace(), before != nullptr ? before->summary.time.value_or(0) : 0);
  std::uint64_t fields = 0;
  taker->Count(fields, kMaxFields);
  for (std::uint64_t f = 0; f < fields && taker->ok(); ++f) {
    std::uint64_t number = 0;
    TakeName(taker, known, &number);
    if (!taker->ok()) break;
    FieldSummary& last = (*known)[number];
    FieldSummary field;
    field.name = last.name;
    CodeField(taker, summary.step, field, last);
    last = field;
    summary.fields.push_back(std::move(field));
  }
  return record;
}

}  // namespace

StepRecord RecordOf(const StepDescription& step, const std::string& text) {
  StepRecord record{text.size(), SummaryOf(step)};
  record.summary.checksum = StoredChecksum(text).value_or(0);
  return record;
}

bool RecordEncoder::Add(const StepRecord& record) {
  if (!Fits(record)) return false;
  const std::size_t begin = bytes_.size();
  const StepSummary& summary = record.summary;
  Putter putter(&bytes_);
  putter.Byte(summary.time ? kHasTime : 0);
  putter.Count(records_ == 0 ? summary.step : summary.step - before_.summary.step - 1, kAnyNumber);
  putter.Number(record.manifest_bytes, before_.manifest_bytes);
  putter.Fixed(record.summary.checksum);
  if (summary.time) putter.Real(*summary.time, before_.summary.time.value_or(0));
  putter.Size(summary.fields, kMaxFields);
  const std::size_t known = fields_.size();
  std::vector<std::size_t> numbers;
  for (const FieldSummary& field : summary.fields) {
    const auto [name, added] = names_.try_emplace(field.name, fields_.size());
    putter.Count(name->second, kMaxFields);
    if (added) {
      putter.Text(field.name, "");
      fields_.emplace_back();
    }
    CodeField(&putter, summary.step, field, fields_[name->second]);
    numbers.push_back(name->second);
  }
  if (bytes_.size() - begin > kMaxRecordBytes) {
    bytes_.resize(begin);
    for (std::size_t i = known; i < fields_.size(); ++i)
      std::erase_if(names_, [&](const auto& name) { return name.second == i; });
    fields_.resize(known);
    return false;
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) fields_[numbers[i]] = summary.fields[i];
  before_.manifest_bytes = record.manifest_bytes;
  before_.summary.step = summary.step;
  before_.summary.time = summary.time;
  ++records_;
  return true;
}

Result<std::vector<StepRecord>> DecodeRecords(ByteSpan bytes, std::uint64_t count) {
  Taker taker(bytes);
  Known known;
  std::vector<StepRecord> records;
  while (records.size() < count && taker.ok() && !taker.at_end())
    records.push_back(TakeRecord(&taker, records.empty() ? nullptr : &records.back(), &known));
  if (taker.ok() && taker.at_end() && records.size() == count) return records;
  return DataLoss("the records of steps are damaged, at record {} of {}", records.size(), count);
}

}  // namespace quarry::format
