#pragma once

#include <cstdint>
#include <memory>
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
};

/// What was lost at a level: its samples, interpolated multilinearly to full resolution, against the
/// original.
struct LevelError {
  double max_error = 0;  ///< [unit of the field] largest absolute difference over the samples of the patch
  double rmse = 0;       ///< [unit of the field] root of the mean squared difference
};

/// One patch as bytes: a byte string per level, 0 the finest. A level is decoded from its bytes and the
/// coarser ones.
struct EncodedPatch {
  std::vector<Bytes> levels;
  std::vector<LevelError> errors;  ///< one per level; errors[0].max_error <= tolerance
  double min = 0;                  ///< of the original samples
  double max = 0;

  std::uint64_t size() const {
    std::uint64_t bytes = 0;
    for (const Bytes& level : levels) bytes += level.size();
    return bytes;
  }
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
  /// @errors kDataLoss; the decoder is then unusable
  virtual Status Advance(ByteSpan payload) = 0;

  /// The level decoded last; `levels` of the layout before the first Advance.
  virtual int level() const = 0;
  /// Samples at level(): dense, x fastest, shape LevelShape(layout.shape, level()), in native byte order.
  virtual ByteSpan samples() const = 0;
};

/// One way of coding. Stateless and thread-safe; the bytes depend on the arguments alone, never on who
/// encodes.
class PatchCoder {
 public:
  virtual ~PatchCoder() = default;

  virtual CoderId id() const = 0;
  virtual bool Supports(DataType type) const = 0;

  /// @param samples    dense, x fastest, shape layout.shape; finite values only
  /// @param tolerance  [unit of the field] absolute, >= 0; every sample decoded at level 0 is at most this
  /// far from its
  ///                   original: the result was decoded and compared before it is returned
  virtual Result<EncodedPatch> Encode(const PatchLayout& layout, ByteSpan samples,
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
