#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "quarry/base/data_type.h"
#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/geometry/box.h"

namespace quarry {

/// How the samples of a patch become bytes. The numbers are stored in subfiles and never change.
enum class CoderId : std::uint8_t {
  kWaveletZfp = 1,
  kInterpolate = 2,
  kLossless = 3,
  kValidity = 4,  ///< of masks: uint8 samples that are 0 or 1; no field has it
};

/// Which samples of an array are there: 1 for a valid one, 0 for a missing one, in the order of the samples.
/// Empty: all are valid.
using Validity = std::span<const std::uint8_t>;

/// What a coder made of one patch.
struct CodedPatch {
  std::vector<Bytes> levels;   ///< payload per level, 0 the finest; decoded from it and the coarser ones
  std::vector<Bytes> decoded;  ///< per level the samples that a decoder will get, missing ones unspecified
};

/// Shape and type of a patch: what both sides of a coder know without looking at the payload.
struct PatchLayout {
  DataType type = DataType::kFloat32;
  Index3 shape{};  ///< samples at level 0, x, y, z
  int levels = 1;
};

/// Decodes one patch from its coarsest level to its finest, each level refined from the last. One caller at a
/// time.
class PatchDecoder {
 public:
  virtual ~PatchDecoder() = default;

  /// Decodes the next finer level (the coarsest at first). `payload` may be any bytes: hostile ones are an
  /// error or meaningless numbers, never a read out of bounds; callers check the checksum before.
  /// @param validity  of the samples at the next level, as it was when they were encoded
  /// @errors kDataLoss; the decoder is then unusable
  virtual Status Advance(ByteSpan payload, Validity validity) = 0;

  /// The level decoded last; `levels` of the layout before the first Advance.
  virtual int level() const = 0;
  /// Samples at level(): dense, x fastest, shape LevelShape(layout.shape, level()), in native byte order.
  /// Missing ones are unspecified.
  virtual ByteSpan samples() const = 0;

  /// A decoder at the same level, from where each goes on by itself.
  virtual std::unique_ptr<PatchDecoder> Clone() const = 0;
  /// [bytes] of the arrays that the decoder holds.
  virtual std::uint64_t memory() const = 0;
};

/// One way of coding. Stateless and thread-safe; the bytes depend on the arguments alone, never on who
/// encodes.
class PatchCoder {
 public:
  virtual ~PatchCoder() = default;

  virtual CoderId id() const = 0;
  virtual bool Supports(DataType type) const = 0;

  /// @param samples    dense, x fastest, shape layout.shape; valid ones are finite, missing ones anything.
  ///                   A lossless coder takes any bits
  /// @param validity   of the samples; at least one is valid
  /// @param tolerance  [unit of the field] absolute, >= 0: no valid sample decoded at level 0 is further from
  ///                   its original. A lossless coder does not look at it
  virtual Result<CodedPatch> Encode(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                    double tolerance) const = 0;

  virtual std::unique_ptr<PatchDecoder> NewDecoder(const PatchLayout& layout) const = 0;
};

/// The coder with this id, or null when this version does not know it.
const PatchCoder* FindCoder(CoderId id);

/// "wavelet-zfp": the names of `--codec` and JSON.
std::string_view Name(CoderId id);

/// Inverse of Name. @errors kInvalidArgument that lists the known names
Result<CoderId> ParseCoder(std::string_view name);

}  // namespace quarry
