#include "quarry/codec/interpolate/symbol_decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "quarry/base/endian.h"
#include "quarry/base/per_thread.h"
#include "quarry/codec/entropy/named_tables.h"
#include "quarry/codec/entropy/varint.h"

namespace quarry::interpolate {
namespace {

/// Samples that are all zero, or all have symbols.
struct SampleRun {
  std::size_t begin;
  std::size_t end;
  bool zero;
};

Result<ByteSpan> TakePart(ByteSpan* payload) {
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t size, entropy::TakeVarint(payload));
  if (size > payload->size()) return DataLoss("a part of {} bytes where {} are left", size, payload->size());
  const ByteSpan part = payload->first(size);
  *payload = payload->subspan(size);
  return part;
}

}  // namespace

/// Scratch of a thread, in addition to LevelScratch. Bytes a sample, with room for vectors that overrun.
struct SymbolDecoder::Scratch {
  std::vector<std::uint8_t> tables;   ///< table or bin of every sample of a band
  std::vector<std::uint8_t> symbols;  ///< symbols of every sample of a band
  std::vector<std::uint8_t> valid_tables;
  std::vector<std::uint8_t> valid_symbols;
  std::vector<std::uint8_t> coded_tables;  ///< tables of those samples that are in no group of zeros
  std::vector<std::uint8_t> coded_symbols;
  std::vector<std::uint32_t> slots;
  std::vector<std::uint16_t> words;
  std::vector<SampleRun> runs;  ///< runs of the band
  Bytes low_bits;

  static Scratch& OfThread() {
    static const PerThread<Scratch> scratch;
    return *scratch;
  }
};

SymbolDecoder::SymbolDecoder(const Kernels& kernels, std::size_t samples, bool further)
    : kernels_(kernels), samples_(samples), further_(further), scratch_(Scratch::OfThread()) {}

Status SymbolDecoder::Start(LevelMode mode, std::uint8_t head, bool wide, ByteSpan payload) {
  mode_ = mode;
  if ((head & kHasEscapes) != 0) {
    QUARRY_RETURN_IF_ERROR(wide ? ReadEscapes<double>(&payload) : ReadEscapes<float>(&payload));
  }
  if (HasTables()) return StartTables(head, payload);
  if (mode_ == LevelMode::kAdaptive) {
    bits_ = entropy::BinaryDecoder(payload);
    model_.emplace();
    return Status::Ok();
  }
  return payload.empty() ? Status::Ok()
                         : DataLoss("a level without indices has {} extra bytes", payload.size());
}

std::uint8_t* SymbolDecoder::Contexts(std::size_t size) { return BytesFor(size, &scratch_.tables); }

void SymbolDecoder::FindContexts(const std::uint16_t* activity, std::size_t count,
                                 std::uint8_t* contexts) const {
  if (HasTables() && !has_classes_) {
    kernels_.classify(activity, count, thresholds_, contexts);
  } else {
    kernels_.fine_bins(activity, count, contexts);
  }
}

Status SymbolDecoder::DecodeBand(const std::uint8_t* validity, std::size_t size, std::size_t begin) {
  std::uint8_t* symbols = BytesFor(size, &scratch_.symbols);
  large_.clear();
  if (mode_ == LevelMode::kZero) {
    std::fill_n(symbols, size, std::uint8_t{0});
    return Status::Ok();
  }
  std::uint8_t* tables = scratch_.tables.data();
  if (has_classes_) contexts_.ContextsToTables(std::span(tables, size));
  if (validity == nullptr) return DecodeValid(tables, size, begin, symbols);

  std::uint8_t* valid_tables = BytesFor(size, &scratch_.valid_tables);
  std::uint8_t* valid_symbols = BytesFor(size, &scratch_.valid_symbols);
  const std::size_t valid = kernels_.compact(tables, validity, size, valid_tables);
  QUARRY_RETURN_IF_ERROR(DecodeValid(valid_tables, valid, begin, valid_symbols));
  kernels_.expand(valid_symbols, validity, size, 0, symbols);
  if (has_low_bits_) kernels_.expand(valid_tables, validity, size, kNoTable, tables);
  PlaceLarge(validity, begin);
  return Status::Ok();
}

const std::uint8_t* SymbolDecoder::symbols() const { return scratch_.symbols.data(); }

const std::uint8_t* SymbolDecoder::tables() const { return scratch_.tables.data(); }

template <typename T>
Status SymbolDecoder::ReadEscapes(ByteSpan* payload) {
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t count, entropy::TakeVarint(payload));
  if (count > payload->size() || count > samples_)
    return DataLoss("{} escapes in {} bytes for {} samples", count, payload->size(), samples_);
  std::uint64_t position = 0;
  escapes_.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t gap, entropy::TakeVarint(payload));
    position += gap + (i > 0 ? 1 : 0);
    if (position >= samples_) return DataLoss("an escape at sample {} of {}", position, samples_);
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t code, entropy::TakeVarint(payload));
    Escape escape{static_cast<std::size_t>(position), code == 0, 0, 0};
    if (escape.raw) {
      if (payload->size() < sizeof(T)) return DataLoss("an escape ends too early");
      escape.value = static_cast<double>(GetLittleEndian<T>(payload->data()));
      if (!std::isfinite(escape.value)) return DataLoss("an escape is not finite");
      *payload = payload->subspan(sizeof(T));
    } else {
      if (code > std::uint64_t{1} << 30) return DataLoss("an escape of index code {}", code);
      const auto zigzag = static_cast<std::uint32_t>(code - 1);
      escape.index = static_cast<std::int32_t>((zigzag >> 1) ^ (~(zigzag & 1) + 1));
    }
    escapes_.push_back(escape);
  }
  return Status::Ok();
}

Status SymbolDecoder::StartTables(std::uint8_t head, ByteSpan payload) {
  if (mode_ == LevelMode::kOldTables) {
    QUARRY_RETURN_IF_ERROR(ReadOldLayout(head, &payload));
  } else {
    QUARRY_RETURN_IF_ERROR(ReadLayout(&payload));
  }
  rans_.slots = scratch_.slots.data();
  has_groups_ = (head & kGroupFlags) != 0;
  if (has_groups_) {
    QUARRY_ASSIGN_OR_RETURN(const ByteSpan flags, TakePart(&payload));
    bits_ = entropy::BinaryDecoder(flags);
  }
  has_low_bits_ = std::any_of(low_bits_.widths.begin(), low_bits_.widths.end(),
                              [](std::uint8_t width) { return width > 0; });
  if (has_low_bits_) {
    QUARRY_ASSIGN_OR_RETURN(const ByteSpan low_bits, TakePart(&payload));
    // Memory is bounded by the level, not by a number in the payload.
    if (low_bits.size() > samples_ * entropy::kMaxShift / 8 + 1)
      return DataLoss("a level of {} new samples has {} bytes of low bits", samples_, low_bits.size());
    StartLowBits(low_bits);
  }
  if (payload.size() / 2 > samples_ + 2 * rans_.lanes)
    return DataLoss("a level of {} new samples has {} bytes of symbols", samples_, payload.size());
  return entropy::StartRans(payload, &scratch_.words, &rans_);
}

/// Which samples have which table, how many lanes there are, and the tables.
Status SymbolDecoder::ReadLayout(ByteSpan* payload) {
  if (payload->empty()) return DataLoss("a level ends before its tables");
  const auto layout = std::to_integer<std::uint8_t>(payload->front());
  const std::size_t tables = (layout & ((1u << kLanesAt) - 1)) + 1;
  has_classes_ = (layout & kClassTables) != 0;
  if (tables > (has_classes_ ? kMaxTablesOfClasses : kMaxTables) || (has_classes_ && !further_))
    return DataLoss("a level has tables of the layout {:#x}", layout);
  if (payload->size() < tables) return DataLoss("a level ends in its contexts");
  contexts_.first = {0};
  for (std::size_t t = 1; t < tables; ++t) {
    const auto context = std::to_integer<std::uint8_t>((*payload)[t]);
    if (context <= contexts_.first.back() || context >= (has_classes_ ? kMostContexts : kFineBins))
      return DataLoss("table {} of a level begins with context {} after {}", t, context,
                      contexts_.first.back());
    contexts_.first.push_back(context);
  }
  *payload = payload->subspan(tables);
  if (!has_classes_) thresholds_ = contexts_.Thresholds();
  rans_.lanes = kLaneCounts[layout >> kLanesAt & 3];
  rans_.bits = entropy::kNamedBits;
  return (layout & kStoredTables) != 0 ? ReadStoredTables(tables, payload) : ReadNames(tables, payload);
}

Status SymbolDecoder::ReadOldLayout(std::uint8_t head, ByteSpan* payload) {
  if (payload->size() < 4) return DataLoss("a level ends in its contexts");
  const auto bins = GetLittleEndian<std::uint32_t>(payload->data());
  *payload = payload->subspan(4);
  if (bins >> (kFineBins - 1) != 0) return DataLoss("a level has a table for impossible activities");
  contexts_.first = {0};
  for (std::uint8_t bin = 1; bin < kFineBins; ++bin) {
    if ((bins >> (bin - 1) & 1) != 0) contexts_.first.push_back(bin);
  }
  if (contexts_.first.size() > kMaxTables)
    return DataLoss("a level has {} tables of symbols", contexts_.first.size());
  thresholds_ = contexts_.Thresholds();
  rans_.lanes = (head & kManyLanesFlag) != 0 ? entropy::kManyLanes : entropy::kFewLanes;
  rans_.bits = (head & kFineTables) != 0 ? 11 : 10;
  return ReadStoredTables(contexts_.first.size(), payload);
}

Status SymbolDecoder::ReadStoredTables(std::size_t count, ByteSpan* payload) {
  QUARRY_ASSIGN_OR_RETURN(const ByteSpan bytes, TakePart(payload));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<entropy::SymbolTable> tables,
                          entropy::DecodeTables(bytes, count, rans_.bits));
  for (std::size_t t = 0; t < count; ++t) low_bits_.widths[t] = tables[t].shift;
  entropy::MakeSlots(tables, rans_.bits, &scratch_.slots);
  return Status::Ok();
}

Status SymbolDecoder::ReadNames(std::size_t count, ByteSpan* payload) {
  if (payload->size() < count) return DataLoss("a level ends in the names of its tables");
  std::array<entropy::TableName, kMaxTablesOfClasses> names{};
  for (std::size_t t = 0; t < count; ++t) {
    names[t] = std::to_integer<std::uint8_t>((*payload)[t]);
    low_bits_.widths[t] = static_cast<std::uint8_t>(entropy::ShiftOf(names[t]));
  }
  *payload = payload->subspan(count);
  entropy::MakeNamedSlots(std::span(names).first(count), &scratch_.slots);
  return Status::Ok();
}

void SymbolDecoder::StartLowBits(ByteSpan bytes) {
  scratch_.low_bits.resize(bytes.size() + kLowBitsPadding);
  const auto end = std::copy(bytes.begin(), bytes.end(), scratch_.low_bits.begin());
  std::fill(end, scratch_.low_bits.end(), std::byte{0});
  low_bits_.bytes = scratch_.low_bits.data();
  low_bits_.limit = bytes.size() * 8;
}

/// Symbols of `count` valid samples. Those in groups of zeros get the symbol 0 and kNoTable.
Status SymbolDecoder::DecodeValid(std::uint8_t* tables, std::size_t count, std::size_t begin,
                                  std::uint8_t* symbols) {
  if (mode_ == LevelMode::kAdaptive) {
    DecodeAdaptive(tables, count, begin, symbols);
    return Status::Ok();
  }
  if (!has_groups_) return DecodeRans(tables, count, symbols);
  const std::size_t coded = FindGroups(tables, count);
  std::uint8_t* coded_symbols = BytesFor(coded, &scratch_.coded_symbols);
  QUARRY_RETURN_IF_ERROR(DecodeRans(scratch_.coded_tables.data(), coded, coded_symbols));
  for (const SampleRun& run : scratch_.runs) {
    const std::size_t size = run.end - run.begin;
    if (run.zero) {
      std::memset(symbols + run.begin, 0, size);
      std::memset(tables + run.begin, kNoTable, size);
    } else {
      std::memcpy(symbols + run.begin, coded_symbols, size);
      coded_symbols += size;
    }
  }
  return Status::Ok();
}

/// Runs of samples in groups of zeros and of others, and the tables of the others. Returns how many these
/// are.
std::size_t SymbolDecoder::FindGroups(const std::uint8_t* tables, std::size_t count) {
  std::uint8_t* coded_tables = BytesFor(count, &scratch_.coded_tables);
  scratch_.runs.clear();
  entropy::BinaryDecoder bits = bits_;  // see DecodeAdaptive
  flags_.Walk(
      tables, count,
      [&](entropy::AdaptiveBit* model, std::size_t, std::size_t) { return bits.Decode(model); },
      [&](std::size_t begin, std::size_t end, bool zero) {
        if (!scratch_.runs.empty() && scratch_.runs.back().zero == zero) {
          scratch_.runs.back().end = end;
        } else {
          scratch_.runs.push_back({begin, end, zero});
        }
      });
  bits_ = bits;
  std::size_t coded = 0;
  for (const SampleRun& run : scratch_.runs) {
    if (run.zero) continue;
    std::memcpy(coded_tables + coded, tables + run.begin, run.end - run.begin);
    coded += run.end - run.begin;
  }
  return coded;
}

Status SymbolDecoder::DecodeRans(const std::uint8_t* tables, std::size_t count, std::uint8_t* symbols) {
  return kernels_.decode_rans(&rans_, tables, count, symbols)
             ? Status::Ok()
             : DataLoss("the symbols of a level end too early");
}

/// Indices without a symbol go to large_.
void SymbolDecoder::DecodeAdaptive(const std::uint8_t* bins, std::size_t count, std::size_t begin,
                                   std::uint8_t* symbols) {
  // A local copy stays in registers; each bit waits for the previous one.
  entropy::BinaryDecoder bits = bits_;
  entropy::BitReader reader{&bits};
  model_->Restart();
  quiet_flags_.Walk(
      bins, count, [&](entropy::AdaptiveBit* model, std::size_t, std::size_t) { return bits.Decode(model); },
      [&](std::size_t run_begin, std::size_t run_end, bool zero) {
        if (zero) {
          std::memset(symbols + run_begin, 0, run_end - run_begin);
          model_->Restart();
          return;
        }
        for (std::size_t i = run_begin; i < run_end; ++i) {
          const std::int32_t index = model_->Code(reader, 0, bins[i]);
          const auto symbol =
              static_cast<std::uint32_t>(index) << 1 ^ static_cast<std::uint32_t>(index >> 31);
          const bool fits = symbol <= entropy::kLargestSymbol;
          symbols[i] = static_cast<std::uint8_t>(fits ? symbol : 0);
          if (!fits) large_.push_back({begin + i, false, index, 0});
        }
      });
  bits_ = bits;
}

/// Turns positions among the valid samples of a band into positions among all of them.
void SymbolDecoder::PlaceLarge(const std::uint8_t* validity, std::size_t begin) {
  std::size_t valid = begin;
  std::size_t i = 0;
  for (Escape& large : large_) {
    for (; validity[i] == 0 || valid < large.position; ++i) valid += validity[i] != 0 ? 1 : 0;
    large.position = begin + i;
  }
}

/// Checks that all words are used and every lane is back in its initial state.
Status SymbolDecoder::CheckEnd() const {
  bool good = rans_.position == rans_.count;
  for (std::size_t lane = 0; lane < rans_.lanes; ++lane) good &= rans_.states[lane] == 1u << 15;
  return good ? Status::Ok() : DataLoss("the symbols of a level do not end where they should");
}

}  // namespace quarry::interpolate
