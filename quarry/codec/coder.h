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
#include "quarry/geometry/sample_place.h"

namespace quarry {

/// How the samples of a patch become bytes. The numbers are stored in subfiles and never change.
enum class CoderId : std::uint8_t {
  kWaveletZfp = 1,
  kInterpolate = 2,
  kLossless = 3,
  kValidity = 4,  ///< masks: uint8 samples that are 0 or 1
  kInterpolateZeros = 5,
  kInterpolateSigns = 6,
  kInterpolateRelative = 7,
};

/// Validity of the samples of an array, in their order: 1 for valid, 0 for missing. Empty: all are valid.
using Validity = std::span<const std::uint8_t>;

/// Most layers of accuracy of a field.
inline constexpr int kMaxLayers = 8;

/// Largest interval between keyframes, in steps.
inline constexpr int kMaxKeyframe = 256;

/// Largest absolute errors of the layers of accuracy, [unit of the field], descending. Most fields have one.
using Tolerances = std::span<const double>;

/// Levels and layers of a patch. Each level of each layer is a part; decoding one needs those of its coarser
/// levels, and all these of the layers before.
struct PatchParts {
  int levels = 1;
  int layers = 1;

  int count() const { return levels * layers; }
  /// Number of a part: 0 is the finest level of the last layer, the most accurate one; the last is the
  /// coarsest level of layer 0. From the last number to the first, every part comes after those that it
  /// needs.
  std::size_t Of(int layer, int level) const {
    const int part = (layers - 1 - layer) * levels + level;
    return static_cast<std::size_t>(part);
  }
  int LayerOf(int part) const { return layers - 1 - part / levels; }
  int LevelOf(int part) const { return part % levels; }

  friend bool operator==(const PatchParts&, const PatchParts&) = default;
};

/// One patch as a coder encoded it.
struct CodedPatch {
  std::vector<Bytes> levels;  ///< payload of every part
  std::vector<Bytes>
      decoded;          ///< samples of every part as a decoder returns them; missing ones are unspecified
  bool refers = false;  ///< decoding needs the reference
};

/// Shape and type of a patch, known to encoder and decoder without the payload.
struct PatchLayout {
  DataType type = DataType::kFloat32;
  Index3 shape{};  ///< samples at level 0, x, y, z
  int levels = 1;
};

/// A level of the same patch at another step, as a decoder has it. Missing samples are unspecified.
struct ReferenceLevel {
  ByteSpan samples;
  Validity validity;
};

/// The same patch at another step, which may help to predict it.
struct PatchReference {
  std::vector<ByteSpan> layers;  ///< decoded samples of level 0 in each layer of accuracy
  Validity validity;             ///< validity of these; at least one is valid
};

/// Decodes one patch from its coarsest level to its finest, each level refined from the last. One caller at a
/// time.
class PatchDecoder {
 public:
  virtual ~PatchDecoder() = default;

  /// Decodes the next finer level, at first the coarsest. Any `payload` is safe: a hostile one gives an error
  /// or meaningless numbers, never a read out of bounds. Callers verify the checksum first.
  /// @param validity  of the samples at the next level, as at encoding
  /// @errors kDataLoss; the decoder is then unusable
  virtual Status Advance(ByteSpan payload, Validity validity) = 0;

  /// The same for the last level that is wanted, if the decoder can put its samples where they belong: true,
  /// and the decoder is then unusable. False: they are in samples().
  /// @param place  for samples() of the next level; after an error it may hold some of them
  virtual Result<bool> AdvanceInto(ByteSpan payload, Validity validity, const SamplePlace& /*place*/) {
    QUARRY_RETURN_IF_ERROR(Advance(payload, validity));
    return false;
  }

  /// Sets the reference of the next level, before it is decoded. All levels of a patch that refers to another
  /// step do.
  /// @param reference  until the next level is decoded
  virtual Status Refer(const ReferenceLevel& /*reference*/) {
    return InternalError("a coder without references has none");
  }

  /// Decodes the next finer level of a further layer, instead of Advance.
  /// @param before  of the layer before, at the next level or a finer one; has the same layout and coder.
  ///                Where it is finer, samples() are unspecified until this decoder is as fine
  virtual Status AdvanceLayer(ByteSpan /*payload*/, Validity /*validity*/, const PatchDecoder& /*before*/) {
    return InternalError("a coder without layers has no further layer");
  }

  /// The last decoded level; layout.levels before the first Advance.
  virtual int level() const = 0;
  /// Samples at level(): dense, x fastest, shape LevelShape(layout.shape, level()), in native byte order.
  /// Missing ones are unspecified.
  virtual ByteSpan samples() const = 0;

  /// An independent copy at the same level.
  virtual std::unique_ptr<PatchDecoder> Clone() const = 0;
  /// [bytes] of the arrays that the decoder holds.
  virtual std::uint64_t memory() const = 0;
};

/// A coding method. Stateless and thread-safe; the bytes depend on the arguments alone. Callers query its
/// capabilities and never compare ids.
class PatchCoder {
 public:
  virtual ~PatchCoder() = default;

  virtual CoderId id() const = 0;
  /// "wavelet-zfp": the name in `--codec` and manifests.
  virtual std::string_view name() const = 0;

  virtual bool Supports(DataType type) const = 0;
  /// Whether fields may use it: false for the mask coder.
  virtual bool CodesFields() const { return true; }
  /// Whether decoding restores every sample bit by bit, at every level. Such a coder needs no tolerance and
  /// accepts any bits.
  virtual bool IsLossless() const = 0;
  /// Whether the tolerance holds at every level: a level is every 2^l-th sample of the field. Otherwise
  /// coarse levels are filtered, and the tolerance holds only at level 0.
  virtual bool BoundsEveryLevel() const = 0;

  /// Whether a tolerance is a fraction of the magnitude of each sample, below 1, instead of an absolute
  /// error.
  virtual bool BoundIsRelative() const { return false; }
  /// Whether the coder promises more of each sample than a largest absolute error: see Keeps.
  virtual bool HasSafeguards() const { return false; }
  /// Whether level 0 has all that the coder promises beside the largest absolute error.
  /// @param samples, validity, tolerance  as at encoding
  virtual bool Keeps(DataType /*type*/, ByteSpan /*samples*/, Validity /*validity*/, double /*tolerance*/,
                     ByteSpan /*decoded*/) const {
    return true;
  }

  /// How many layers of accuracy a patch may have.
  virtual int MostLayers() const { return 1; }

  /// @param samples    dense, x fastest, shape layout.shape; missing ones can be anything, valid ones are
  ///                   finite unless the coder is lossless
  /// @param validity   of the samples; at least one is valid
  /// @param tolerance  [unit of the field] largest absolute error of a valid sample at level 0, >= 0; or see
  ///                   BoundIsRelative. Lossless coders ignore it
  virtual Result<CodedPatch> Encode(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                    double tolerance) const = 0;

  /// The same in several layers: each refines the one before to its own tolerance.
  /// @param tolerances  at least one, at most MostLayers, descending
  virtual Result<CodedPatch> EncodeLayers(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                          Tolerances tolerances) const {
    if (tolerances.size() != 1) return InvalidArgument("coder {} has no layers of accuracy", name());
    return Encode(layout, samples, validity, tolerances.front());
  }

  /// Whether a patch may refer to another step.
  virtual bool CanRefer() const { return false; }
  /// As EncodeLayers, with a reference that is used where that pays.
  virtual Result<CodedPatch> EncodeReferring(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                             Tolerances tolerances,
                                             const PatchReference& /*reference*/) const {
    return EncodeLayers(layout, samples, validity, tolerances);
  }

  virtual std::unique_ptr<PatchDecoder> NewDecoder(const PatchLayout& layout) const = 0;
};

/// The coder with this id, or null when this version does not know it.
const PatchCoder* FindCoder(CoderId id);

/// The coders that a field may name, in the order of their ids.
std::span<const PatchCoder* const> FieldCoders();

/// Name of the coder with this id, "unknown" when this version does not know it.
std::string_view Name(CoderId id);

/// Id of the coder that `--codec` or a manifest names. @errors kInvalidArgument that lists the known names
Result<CoderId> ParseCoder(std::string_view name);

}  // namespace quarry
