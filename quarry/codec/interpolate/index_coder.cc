#include "quarry/codec/interpolate/index_coder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/interpolate/adaptive.h"
#include "quarry/codec/interpolate/level_bands.h"
#include "quarry/codec/interpolate/symbol_sink.h"

namespace quarry::interpolate {
namespace {

/// Payload from which 32 and 64 states of four bytes are worth it.
constexpr double kManyLanesBits = 8.0 * 4000;
constexpr double kMostLanesBits = 8.0 * 16000;
/// Bits of the frequencies of stored tables; named ones have the same.
constexpr int kTableBits = entropy::kNamedBits;

/// Writes whether indices are all zero.
struct FlagWriter {
  entropy::BinaryEncoder* encoder;
  const std::int32_t* indices;

  bool operator()(entropy::AdaptiveBit* model, std::size_t begin, std::size_t end) const {
    const bool zero = std::all_of(indices + begin, indices + end, [](std::int32_t q) { return q == 0; });
    encoder->Encode(zero, model);
    return zero;
  }
};

std::size_t LanesFor(const TableChoice& choice, std::size_t samples) {
  if (samples <= kOneLaneUpTo) return 1;
  if (choice.bits > kMostLanesBits) return entropy::kMostLanes;
  return choice.bits > kManyLanesBits ? entropy::kManyLanes : entropy::kFewLanes;
}

/// Named tables, or those of the symbols that were counted.
std::vector<entropy::SymbolTable> Tables(const TableChoice& choice, const SymbolSink& sink) {
  std::vector<entropy::SymbolTable> tables(choice.shifts.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    if (!choice.names.empty()) {
      tables[t] = entropy::NamedTable(choice.names[t]);
    } else {
      // A table may be left without samples when all of its groups are zero.
      std::array<std::uint32_t, entropy::kSymbols> counts = sink.Counts(t);
      if (std::all_of(counts.begin(), counts.end(), [](std::uint32_t n) { return n == 0; })) counts[0] = 1;
      entropy::Normalise(counts, kTableBits, &tables[t]);
    }
    tables[t].shift = choice.shifts[t];
  }
  return tables;
}

void AppendPart(const Bytes& part, Bytes* out) {
  entropy::PutVarint(part.size(), out);
  out->insert(out->end(), part.begin(), part.end());
}

/// Codes flags; returns the runs of every band that have symbols, or nothing if flags do not pay.
std::vector<SampleRuns> FlagGroups(const CodedIndices& coded, Bytes* out) {
  std::vector<SampleRuns> live;
  std::size_t zeros = 0;
  entropy::BinaryEncoder encoder(out);
  GroupFlags flags(GroupFlags::kMostActiveWithTables);
  std::size_t band_begin = 0;
  for (const std::size_t band_end : coded.ends) {
    live.emplace_back();
    flags.Walk(coded.contexts.data() + band_begin, band_end - band_begin,
               FlagWriter{&encoder, coded.indices.data() + band_begin},
               [&](std::size_t begin, std::size_t end, bool zero) {
                 if (zero) {
                   zeros += end - begin;
                 } else if (!live.back().empty() && live.back().back().second == band_begin + begin) {
                   live.back().back().second = band_begin + end;
                 } else {
                   live.back().emplace_back(band_begin + begin, band_begin + end);
                 }
               });
    band_begin = band_end;
  }
  encoder.Finish();
  if (zeros * 8 <= coded.indices.size()) live.clear();
  return live;
}

SampleRuns Live(const std::vector<SampleRuns>& of_bands) {
  SampleRuns all;
  for (const SampleRuns& runs : of_bands) all.insert(all.end(), runs.begin(), runs.end());
  return all;
}

}  // namespace

Bytes CodeAdaptive(const CodedIndices& coded) {
  Bytes body;
  entropy::BinaryEncoder encoder(&body);
  entropy::BitWriter writer{&encoder};
  GroupFlags flags(0);
  IndexModel model;
  std::size_t band_begin = 0;
  for (const std::size_t band_end : coded.ends) {
    model.Restart();
    const std::int32_t* indices = coded.indices.data() + band_begin;
    const std::uint8_t* bins = coded.contexts.data() + band_begin;
    flags.Walk(bins, band_end - band_begin, FlagWriter{&encoder, indices},
               [&](std::size_t begin, std::size_t end, bool zero) {
                 if (zero) {
                   model.Restart();
                   return;
                 }
                 for (std::size_t i = begin; i < end; ++i) model.Code(writer, indices[i], bins[i]);
               });
    band_begin = band_end;
  }
  encoder.Finish();
  return body;
}

CodedTables CodeTables(TableChoice choice, const CodedIndices& coded, const Kernels& kernels,
                       bool flag_groups, std::vector<entropy::CodedSymbol>* symbols_of) {
  const std::span<std::uint8_t> tables_of = coded.contexts;
  choice.contexts.ContextsToTables(tables_of);

  Bytes group_flags;
  std::vector<SampleRuns> live;
  if (flag_groups) live = FlagGroups(coded, &group_flags);
  const std::uint8_t flags = live.empty() ? 0 : kGroupFlags;
  if (!live.empty() && !choice.names.empty()) ChooseNames(coded.indices, tables_of, Live(live), &choice);

  SymbolSink sink(kernels, choice, coded.indices.size(), symbols_of);
  std::vector<std::size_t> run_ends;
  std::size_t begin = 0;
  for (const std::size_t band_end : coded.ends) {
    if (live.empty()) {
      sink.Add(coded.indices, tables_of, begin, band_end);
    } else {
      for (const auto& [run_begin, run_end] : live[run_ends.size()])
        sink.Add(coded.indices, tables_of, run_begin, run_end);
    }
    begin = band_end;
    run_ends.push_back(sink.size());
  }
  const std::span<const entropy::CodedSymbol> symbols(symbols_of->data(), sink.size());

  const std::vector<entropy::SymbolTable> tables = Tables(choice, sink);
  const std::size_t lanes = LanesFor(choice, coded.indices.size());
  Bytes body;
  const auto of_lanes = std::find(kLaneCounts.begin(), kLaneCounts.end(), lanes) - kLaneCounts.begin();
  body.push_back(static_cast<std::byte>((tables.size() - 1) | static_cast<std::size_t>(of_lanes) << kLanesAt |
                                        (choice.names.empty() ? kStoredTables : 0u) |
                                        (choice.has_classes ? kClassTables : 0u)));
  for (std::size_t t = 1; t < tables.size(); ++t)
    body.push_back(static_cast<std::byte>(choice.contexts.first[t]));
  if (choice.names.empty()) {
    Bytes part;
    entropy::EncodeTables(tables, kTableBits, &part);
    AppendPart(part, &body);
  } else {
    for (const entropy::TableName name : choice.names) body.push_back(static_cast<std::byte>(name));
  }
  if (!live.empty()) AppendPart(group_flags, &body);
  if (std::any_of(choice.shifts.begin(), choice.shifts.end(), [](std::uint8_t s) { return s > 0; }))
    AppendPart(sink.LowBits(), &body);
  entropy::EncodeRans(symbols, run_ends, tables, kTableBits, lanes, kernels.encode_rans, &body);
  return {std::move(body), flags, sink.too_large()};
}

}  // namespace quarry::interpolate
