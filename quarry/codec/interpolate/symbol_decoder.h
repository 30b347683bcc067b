#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/codec/entropy/rans.h"
#include "quarry/codec/interpolate/adaptive.h"
#include "quarry/codec/interpolate/contexts.h"
#include "quarry/codec/interpolate/level_bands.h"

/// The entropy coded part of a level, which is the same for every type of samples.
namespace quarry::interpolate {

/// A sample whose index is not among the coded symbols.
struct Escape {
  std::size_t position;  ///< in the bands one after the other
  bool raw;              ///< `value` is the sample; otherwise it has `index`
  std::int32_t index;
  double value;
};

/// Room for `samples` and the reads and writes beyond the last.
inline std::uint8_t* BytesFor(std::size_t samples, std::vector<std::uint8_t>* scratch) {
  const std::size_t size = samples + entropy::kMostLanes;
  if (scratch->size() < size) scratch->resize(size);
  return scratch->data();
}

/// Decodes the symbols of a level band by band.
class SymbolDecoder {
 public:
  /// @param samples  new ones of the level
  /// @param further  there is a layer before, so contexts may have classes
  SymbolDecoder(const Kernels& kernels, std::size_t samples, bool further);

  /// Reads the part before the symbols. `payload` begins behind the first byte of the level and its predictor
  /// and must stay.
  /// @param wide  samples are float64, not float32
  /// @errors kDataLoss
  Status Start(LevelMode mode, std::uint8_t head, bool wide, ByteSpan payload);

  bool HasTables() const {
    return mode_ == LevelMode::kTables || mode_ == LevelMode::kOldTables || mode_ == LevelMode::kExactTables;
  }
  bool has_classes() const { return has_classes_; }
  /// Samples that have no symbol, by position.
  const std::vector<Escape>& escapes() const { return escapes_; }

  /// Where the caller puts the context of every sample of a band before DecodeBand, unless all indices are 0.
  std::uint8_t* Contexts(std::size_t size);
  /// Contexts of samples by the activity around them, to which the caller adds classes if there are any.
  void FindContexts(const std::uint16_t* activity, std::size_t count, std::uint8_t* contexts) const;

  /// Symbols of a band of `size` samples, and their tables if they have low bits. Samples without a symbol
  /// get 0, which stands for the index 0, and kNoTable.
  /// @param validity  of the band, or null: all are valid
  /// @param begin     of the band among the new samples
  /// @errors kDataLoss
  Status DecodeBand(const std::uint8_t* validity, std::size_t size, std::size_t begin);

  const std::uint8_t* symbols() const;
  const std::uint8_t* tables() const;
  /// Null: no symbol has any. The bits that are read from it are counted.
  LowBits* low_bits() { return has_low_bits_ ? &low_bits_ : nullptr; }
  /// Indices of adaptive bits in the last band that no symbol stands for, by position.
  const std::vector<Escape>& large() const { return large_; }

  /// Checks that all words are used and every lane is back in its initial state.
  /// @errors kDataLoss
  Status CheckEnd() const;

 private:
  template <typename T>
  Status ReadEscapes(ByteSpan* payload);
  Status StartTables(std::uint8_t head, ByteSpan payload);
  Status ReadLayout(ByteSpan* payload);
  Status ReadOldLayout(std::uint8_t head, ByteSpan* payload);
  Status ReadStoredTables(std::size_t count, ByteSpan* payload);
  Status ReadNames(std::size_t count, ByteSpan* payload);
  void StartLowBits(ByteSpan bytes);
  Status DecodeValid(std::uint8_t* tables, std::size_t count, std::size_t begin, std::uint8_t* symbols);
  std::size_t FindGroups(const std::uint8_t* tables, std::size_t count);
  Status DecodeRans(const std::uint8_t* tables, std::size_t count, std::uint8_t* symbols);
  void DecodeAdaptive(const std::uint8_t* bins, std::size_t count, std::size_t begin, std::uint8_t* symbols);
  void PlaceLarge(const std::uint8_t* validity, std::size_t begin);

  struct Scratch;

  const Kernels& kernels_;
  const std::size_t samples_;
  const bool further_;
  Scratch& scratch_;

  LevelMode mode_ = LevelMode::kZero;
  std::vector<Escape> escapes_;
  std::vector<Escape> large_;
  ContextMap contexts_;
  bool has_classes_ = false;
  std::vector<std::uint16_t> thresholds_;  ///< thresholds of bins
  entropy::RansReader rans_;
  bool has_groups_ = false;
  bool has_low_bits_ = false;
  LowBits low_bits_;
  entropy::BinaryDecoder bits_ = entropy::BinaryDecoder({});
  GroupFlags quiet_flags_ = GroupFlags(0);
  GroupFlags flags_ = GroupFlags(GroupFlags::kMostActiveWithTables);
  std::optional<IndexModel> model_;  ///< eight KiB that most levels do not need
};

}  // namespace quarry::interpolate
