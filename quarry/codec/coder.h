#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/box.h"
#include "quarry/coder_id.h"
#include "quarry/data_type.h"
#include "quarry/geometry/sample_place.h"

namespace quarry {

namespace repeats {
struct FoldedPatch;
}

/// Validity of the samples of an array, in their order: 1 for valid, 0 for missing. Empty: all are valid.
using Validity = std::span<const std::uint8_t>;

/// Most layers of accuracy of a field.
inline constexpr int kMaxLayers = 8;

/// Largest interval between keyframes, in steps.
inline constexpr int kMaxKeyframe = 256;

/// Largest absolute errors of the layers of accuracy, [unit of the field], descending. Most fields have one.
using Tolerances = std::span<const double>;

/// Tolerances of one layer without an error.
inline constexpr std::array kOneExactLayer = {0.0};

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

class PatchDecoder;

/// Input of a decoder for the next finer level of a patch.
struct LevelInput {
  ByteSpan payload;   ///< may be hostile; callers verify the checksum first
  Validity validity;  ///< validity of the samples at that level, as at encoding
  /// That level at another step. All levels of a patch that refers to another step have one, which the coder
  /// must be able to use (see CoderTraits). Null: none.
  const ReferenceLevel* reference = nullptr;
  /// The layer before, at that level or a finer one, with the same layout and coder; the coder must have
  /// further layers. Where it is finer, samples() are unspecified until this decoder is as fine. Null: this
  /// is the first layer.
  const PatchDecoder* before = nullptr;
  /// Place for the samples of that level, if it is the last one that is wanted; after an error it may hold
  /// some of them. Null: they go to samples().
  const SamplePlace* place = nullptr;
};

/// Decodes one patch from its coarsest level to its finest, each level refined from the last. One caller at a
/// time.
class PatchDecoder {
 public:
  virtual ~PatchDecoder() = default;

  /// Decodes the next finer level, at first the coarsest. Any payload is safe: a hostile one gives an error
  /// or meaningless numbers, never a read out of bounds.
  /// @return true: the samples went to the place, and the decoder is then unusable; false: they are in
  ///         samples(), whether or not there is a place
  /// @errors kDataLoss; the decoder is then unusable
  virtual Result<bool> Advance(const LevelInput& input) = 0;

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

/// A patch to encode.
struct EncodeRequest {
  const PatchLayout& layout;
  /// Dense, x fastest, shape layout.shape; missing ones can be anything, valid ones are finite unless the
  /// coder is lossless.
  ByteSpan samples;
  Validity validity;  ///< validity of the samples; at least one is valid
  /// [unit of the field] of each layer, descending: largest absolute error of a valid sample at level 0,
  /// >= 0; or see CoderTraits::bound_is_relative. Each layer refines the one before to its own tolerance. At
  /// least one, at most CoderTraits::most_layers. Lossless coders ignore them.
  Tolerances tolerances;
  /// The patch at another step, used where that pays. Coders that cannot refer ignore it. Null: none.
  const PatchReference* reference = nullptr;
};

/// Capabilities of a coder. Callers query them and never compare ids.
struct CoderTraits {
  CoderId id{};
  std::string_view name;  ///< "wavelet-zfp": the name in `--codec` and manifests
  /// Whether fields may use it: false for the mask coder.
  bool codes_fields = true;
  /// Whether decoding restores every sample bit by bit, at every level. Such a coder needs no tolerance and
  /// accepts any bits.
  bool is_lossless = false;
  /// Whether the tolerance holds at every level: a level is every 2^l-th sample of the field. Otherwise
  /// coarse levels are filtered, and the tolerance holds only at level 0.
  bool bounds_every_level = true;
  /// Whether a tolerance is a fraction of the magnitude of each sample, below 1, instead of an absolute
  /// error.
  bool bound_is_relative = false;
  /// Whether the coder promises more of each sample than a largest absolute error: see PatchCoder::Keeps.
  bool has_safeguards = false;
  int most_layers = 1;     ///< how many layers of accuracy a patch may have
  bool can_refer = false;  ///< whether a patch may refer to another step
  /// Whether a patch that does not depend on an axis is coded as one plane across it; only of a registered
  /// coder, whose payloads must not begin with a byte of quarry::repeats.
  bool can_repeat = false;
  /// [ns] for each byte of samples, of one thread: for estimates, see docs/decisions/encoding-choice.md.
  double encode_ns = 1.5;
  double decode_ns = 0.6;
};

/// A coding method. Stateless and thread-safe; the bytes depend on the arguments alone. Static objects, which
/// are not destroyed through this class.
class PatchCoder {
 public:
  virtual const CoderTraits& traits() const = 0;
  CoderId id() const { return traits().id; }
  std::string_view name() const { return traits().name; }

  virtual bool Supports(DataType type) const = 0;
  /// Whether level 0 has all that the coder promises beside the largest absolute error.
  /// @param samples, validity, tolerance  as at encoding
  virtual bool Keeps(DataType /*type*/, ByteSpan /*samples*/, Validity /*validity*/, double /*tolerance*/,
                     ByteSpan /*decoded*/) const {
    return true;
  }

  Result<CodedPatch> Encode(const EncodeRequest& request) const;

  std::unique_ptr<PatchDecoder> NewDecoder(const PatchLayout& layout) const;
  /// The same of a patch that does not repeat, or of the plane that is coded of one that does.
  virtual std::unique_ptr<PatchDecoder> NewPlainDecoder(const PatchLayout& layout) const = 0;

 protected:
  ~PatchCoder() = default;

  /// Encodes a patch of as many layers as the coder has, with a reference only where it can use one, as if it
  /// did not repeat.
  virtual Result<CodedPatch> EncodeChecked(const EncodeRequest& request) const = 0;

 private:
  /// Encodes a patch that may repeat.
  Result<CodedPatch> EncodeRepeating(const EncodeRequest& request) const;
  /// @return with decoded samples of the plane alone
  Result<CodedPatch> EncodeFolded(const EncodeRequest& request, const repeats::FoldedPatch& folded) const;
};

/// The coder with this id, or null when this version does not know it.
const PatchCoder* FindCoder(CoderId id);

/// The coders that a field may name, in the order of their ids.
std::span<const PatchCoder* const> FieldCoders();

}  // namespace quarry
