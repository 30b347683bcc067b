#include "quarry/codec/interpolate/listed_layer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "quarry/codec/entropy/bit_string.h"
#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/interpolate/level.h"
#include "quarry/codec/interpolate/value_list.h"
#include "quarry/codec/strided.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::interpolate {
namespace {

/// Calls `use` with the place of each valid sample of a level that the coarser one lacks, in memory order.
/// @param is_first  of no coarser level any sample is known
template <typename Use>
void ForEachNew(const Index3& shape, Validity validity, bool is_first, Use use) {
  std::size_t row = 0;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y, row += static_cast<std::size_t>(shape[0])) {
      const bool known = !is_first && z % 2 == 0 && y % 2 == 0;  // every second sample of the row
      for (std::int64_t x = known ? 1 : 0; x < shape[0]; x += known ? 2 : 1) {
        const std::size_t i = row + static_cast<std::size_t>(x);
        if (validity.empty() || validity[i] != 0) use(i);
      }
    }
  }
}

/// Center of the values around this value of the layer before.
template <typename S>
S Center(S before) {
  return SanitisedPrediction(before, /*integral=*/false);
}

/// The logarithm of a positive number to base 2, at most 0.09 too small: the same with every mathematical
/// library, as stored bytes depend on it.
double ApproximateLog2(double number) {
  int exponent = 0;
  const double fraction = std::frexp(number, &exponent);
  return exponent - 2 + 2 * fraction;
}

template <typename S>
class Encoder {
  using Word = typename ValueList<S>::Word;
  using Words = typename ValueList<S>::Words;
  static constexpr int kZstdLevel = 3;
  // A trial is worth it if, of this many samples, one in kOneRepeated shares its magnitude with another.
  static constexpr std::size_t kSeen = 4096;
  static constexpr std::size_t kOneRepeated = 1024;

 public:
  Encoder(const PatchLayout& layout, const S* samples, Validity validity, const S* before)
      : layout_(layout), samples_(samples), validity_(validity), before_(before) {}

  std::vector<Bytes> Run(std::size_t most) {
    std::vector<Bytes> levels(static_cast<std::size_t>(layout_.levels));
    if (!NumbersRepeat()) return {};
    for (int level = layout_.levels - 1; level >= 0; --level) {
      Bytes& payload = levels[static_cast<std::size_t>(level)];
      if (!CodeLevel(level, most, &payload)) return {};
      most -= std::min(most, payload.size());
    }
    return levels;
  }

 private:
  static Word MagnitudeOf(S sample) {
    return static_cast<Word>(std::bit_cast<Word>(sample) & (std::numeric_limits<Word>::max() >> 1));
  }

  static Words Distinct(Words magnitudes) {
    std::sort(magnitudes.begin(), magnitudes.end());
    magnitudes.erase(std::unique(magnitudes.begin(), magnitudes.end()), magnitudes.end());
    return magnitudes;
  }

  bool NumbersRepeat() const {
    const auto count = static_cast<std::size_t>(Volume(layout_.shape));
    const std::size_t stride = count / kSeen | 1;  // odd, so that not all are from one column
    Words seen;
    for (std::size_t i = 0; i < count && seen.size() < kSeen; i += stride) {
      if (validity_.empty() || validity_[i] != 0) seen.push_back(MagnitudeOf(samples_[i]));
    }
    const std::size_t all = seen.size();
    seen = Distinct(std::move(seen));
    return (all - seen.size()) * kOneRepeated >= all && !AreDense(seen, static_cast<double>(stride));
  }

  /// Whether nearly all magnitudes in their range occur in the patch: then they repeat for lack of others,
  /// and a list does not help.
  /// @param share  one in so many was seen
  static bool AreDense(const Words& seen, double share) {
    constexpr double kDenseBits = 1.5;
    double bits = 0;
    for (std::size_t i = 1; i < seen.size(); ++i)
      bits += ApproximateLog2(static_cast<double>(seen[i] - seen[i - 1]));
    return bits < static_cast<double>(seen.size() - 1) * (ApproximateLog2(share) + kDenseBits);
  }

  /// False if a sample is beyond all reach, or the payload becomes larger than `most`.
  bool CodeLevel(int level, std::size_t most, Bytes* out) {
    const Index3 shape = LevelShape(layout_.shape, level);
    const std::int64_t stride = std::int64_t{1} << level;
    Buffer<S> samples;
    Buffer<S> before;
    CopyStrided(samples_, layout_.shape, stride, &samples);
    CopyStrided(before_, layout_.shape, stride, &before);
    const ValidityBuffer valid = CoarserValidity(validity_, layout_.shape, level);
    const bool is_first = level == layout_.levels - 1;

    double farthest = 0;
    Words magnitudes;
    ForEachNew(shape, valid, is_first, [&](std::size_t i) {
      farthest = std::max(farthest,
                          std::abs(static_cast<double>(samples[i]) - static_cast<double>(Center(before[i]))));
      magnitudes.push_back(MagnitudeOf(samples[i]));
    });
    if (magnitudes.empty()) return true;
    const float reach = Above(farthest);
    if (!std::isfinite(reach)) return false;
    PutLittleEndian(out, reach);
    const Words listed = NewOnes(Distinct(std::move(magnitudes)));
    entropy::BitStringWriter bits(PutLengths(listed, out));
    PutListed(listed, &bits);
    list_.Add(listed);

    // Before all of them are looked up: so much will the places take, by some of them.
    constexpr std::size_t kLooked = 64;
    double place_bits = 0;
    std::size_t number = 0;
    ForEachNew(shape, valid, is_first, [&](std::size_t i) {
      if (number++ % kLooked != 0) return;
      const auto near = list_.Around(Center(before[i]), static_cast<double>(reach));
      place_bits += kLooked * ApproximateLog2(static_cast<double>(near.size()) + 1);
    });
    if (number > kLooked * kLooked &&
        static_cast<double>(out->size()) + 0.9 * place_bits / 8 > static_cast<double>(most))
      return false;

    bool reached = true;
    ForEachNew(shape, valid, is_first, [&](std::size_t i) {
      const auto near = list_.Around(Center(before[i]), static_cast<double>(reach));
      const std::size_t place = list_.PlaceOf(samples[i]);
      reached &= near.begin <= place && place < near.end;
      if (reached) entropy::PlaceCode(near.size()).Put(place - near.begin, &bits);
    });
    bits.Finish();
    return reached;
  }

  /// A float32 that leaves room for the rounding of distances and of both ends, and for zeros of both signs.
  static float Above(double farthest) {
    const double roomy = farthest * (1 + std::ldexp(1.0, -22));
    if (!(roomy < static_cast<double>(std::numeric_limits<float>::max())))
      return std::numeric_limits<float>::infinity();
    return std::nextafter(static_cast<float>(roomy), std::numeric_limits<float>::infinity());
  }

  /// From one listed magnitude to the next.
  static Word DistanceTo(const Words& listed, std::size_t i) {
    return i == 0 ? listed[0] : static_cast<Word>(listed[i] - listed[i - 1] - 1);
  }

  /// How many there are, and how many bits each distance has. Returns `out`.
  static Bytes* PutLengths(const Words& listed, Bytes* out) {
    std::vector<std::uint8_t> lengths(listed.size());
    for (std::size_t i = 0; i < listed.size(); ++i)
      lengths[i] = static_cast<std::uint8_t>(std::bit_width(DistanceTo(listed, i)));
    entropy::PutVarint(listed.size(), out);
    entropy::AppendPlanes(std::as_bytes(std::span(lengths)), 1, entropy::PlaneLayout::kBytes, kZstdLevel,
                          out);
    return out;
  }

  /// The bits of each distance, without the highest.
  static void PutListed(const Words& listed, entropy::BitStringWriter* bits) {
    for (std::size_t i = 0; i < listed.size(); ++i) {
      const Word distance = DistanceTo(listed, i);
      if (distance > 1)
        bits->Put(distance ^ std::bit_floor(distance), static_cast<int>(std::bit_width(distance)) - 1);
    }
  }

  /// The magnitudes that are not known yet.
  Words NewOnes(const Words& magnitudes) const {
    Words listed;
    std::set_difference(magnitudes.begin(), magnitudes.end(), list_.magnitudes().begin(),
                        list_.magnitudes().end(), std::back_inserter(listed));
    return listed;
  }

  const PatchLayout& layout_;
  const S* samples_;
  const Validity validity_;
  const S* before_;
  ValueList<S> list_;
};

template <typename S>
class Decoder final : public PatchDecoder {
  using Word = typename ValueList<S>::Word;
  using Words = typename ValueList<S>::Words;

 public:
  explicit Decoder(const PatchLayout& layout) : layout_(layout), level_(layout.levels) {}

  int level() const override { return level_; }
  ByteSpan samples() const override { return std::as_bytes(std::span(samples_)); }
  std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
  std::uint64_t memory() const override { return samples_.size() * sizeof(S) + list_.memory(); }

  Result<bool> Advance(const LevelInput& input) override {
    if (input.before == nullptr)
      return InternalError("the values of a layer are listed, but no layer is before it");
    const auto [payload, validity, reference, before, place] = input;
    const int next = level_ - 1;
    if (next < 0) return InternalError("a patch of {} levels has no finer level", layout_.levels);
    const bool is_first = level_ == layout_.levels;
    const Index3 shape = LevelShape(layout_.shape, next);
    if (!validity.empty() && validity.size() != static_cast<std::size_t>(Volume(shape)))
      return InternalError("the validity of level {} has {} samples", next, validity.size());
    Buffer<S> level(static_cast<std::size_t>(Volume(shape)), S(0));
    if (!is_first) Spread(LevelShape(layout_.shape, level_), shape, &level);
    level_ = next;
    samples_ = std::move(level);
    std::size_t new_samples = 0;
    ForEachNew(shape, validity, is_first, [&](std::size_t /*i*/) { ++new_samples; });
    if (new_samples == 0) {
      if (payload.empty()) return false;
      return DataLoss("level {} adds no sample, but has {} bytes", next, payload.size());
    }
    QUARRY_RETURN_IF_ERROR(DecodeNew(payload, validity, *before, shape, is_first, new_samples));
    return false;
  }

 private:
  /// Puts the known samples where they are at the next level.
  void Spread(const Index3& from, const Index3& to, Buffer<S>* out) const {
    const S* known = samples_.data();
    for (std::int64_t z = 0; z < from[2]; ++z) {
      for (std::int64_t y = 0; y < from[1]; ++y) {
        S* row = out->data() + 2 * (z * to[1] + y) * to[0];
        for (std::int64_t x = 0; x < from[0]; ++x) row[2 * x] = *known++;
      }
    }
  }

  /// @param count  of new samples
  Status DecodeNew(ByteSpan payload, Validity validity, const PatchDecoder& before, const Index3& shape,
                   bool is_first, std::size_t count) {
    if (payload.size() < sizeof(float))
      return DataLoss("level {} of listed values has {} bytes", level_, payload.size());
    const auto reach = static_cast<double>(GetLittleEndian<float>(payload.data()));
    if (!(reach >= 0) || !std::isfinite(reach))
      return DataLoss("level {} of listed values reaches {}", level_, reach);
    payload = payload.subspan(sizeof(float));
    QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> lengths, TakeLengths(count, &payload));
    entropy::BitStringReader bits(payload);
    QUARRY_RETURN_IF_ERROR(TakeListed(lengths, &bits));

    const auto* near = reinterpret_cast<const S*>(before.samples().data());
    Buffer<S> strided;
    if (before.level() < level_) {
      CopyStrided(near, LevelShape(layout_.shape, before.level()),
                  std::int64_t{1} << (level_ - before.level()), &strided);
      near = strided.data();
    }
    bool reached = true;
    ForEachNew(shape, validity, is_first, [&](std::size_t i) {
      const auto range = list_.Around(Center(near[i]), reach);
      reached &= range.size() > 0;
      if (range.size() > 0)
        samples_[i] = list_.ValueAt(range.begin + entropy::PlaceCode(range.size()).Take(&bits));
    });
    if (!reached)
      return DataLoss("no listed value is as near to a sample of level {} as it has to be", level_);
    return bits.IsAtEnd() ? Status::Ok()
                          : DataLoss("level {} of listed values does not end where its samples do", level_);
  }

  /// @param most  how many magnitudes may be listed
  Result<std::vector<std::uint8_t>> TakeLengths(std::size_t most, ByteSpan* payload) const {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t count, entropy::TakeVarint(payload));
    if (count > most)
      return DataLoss("level {} has {} new samples, but lists {} values", level_, most, count);
    std::vector<std::uint8_t> lengths(count);
    QUARRY_RETURN_IF_ERROR(entropy::TakePlanes(payload, &lengths));
    return lengths;
  }

  Status TakeListed(std::span<const std::uint8_t> lengths, entropy::BitStringReader* bits) {
    constexpr Word kMost = std::bit_cast<Word>(std::numeric_limits<S>::max());
    Words listed(lengths.size());
    Word least = 0;  // lower bound of the next one
    for (std::size_t i = 0; i < listed.size(); ++i) {
      const int length = lengths[i];
      if (length > std::numeric_limits<Word>::digits)
        return DataLoss("a distance of listed values has {} bits", length);
      const std::uint64_t distance =
          length == 0 ? 0 : std::uint64_t{1} << (length - 1) | bits->Take(length - 1);
      if (least > kMost || distance > kMost - least) return DataLoss("a listed value is not finite");
      listed[i] = static_cast<Word>(least + distance);
      least = static_cast<Word>(listed[i] + 1);
    }
    list_.Add(listed);
    const Words& all = list_.magnitudes();
    if (std::adjacent_find(all.begin(), all.end()) != all.end())
      return DataLoss("a magnitude is listed twice");
    return Status::Ok();
  }

  const PatchLayout layout_;
  int level_;
  Buffer<S> samples_;
  ValueList<S> list_;
};

}  // namespace

std::vector<Bytes> EncodeListedLayer(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                     ByteSpan before, std::size_t most) {
  const auto encode = [&]<typename S>(S) {
    return Encoder<S>(layout, reinterpret_cast<const S*>(samples.data()), validity,
                      reinterpret_cast<const S*>(before.data()))
        .Run(most);
  };
  if (layout.type == DataType::kFloat32) return encode(float{});
  if (layout.type == DataType::kFloat64) return encode(double{});
  return {};
}

std::unique_ptr<PatchDecoder> NewListedLayerDecoder(const PatchLayout& layout) {
  if (layout.type == DataType::kFloat32) return std::make_unique<Decoder<float>>(layout);
  return std::make_unique<Decoder<double>>(layout);
}

}  // namespace quarry::interpolate
