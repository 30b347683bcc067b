#include "quarry/codec/lossless/lossless.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/lossless/fixed_point.h"
#include "quarry/codec/lossless/step.h"
#include "quarry/codec/quantum.h"
#include "quarry/codec/sample_range.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

using lossless::Buffer;
using lossless::GridView;
using lossless::WordOf;

// First byte of the coarsest level: how the whole patch is stored. In the first two modes finer levels are
// empty.
enum class PatchMode : std::uint8_t {
  kConstant = 0,   // one sample follows
  kWhole = 1,      // planes of all samples of level 0 follow, missing ones too
  kLevels = 2,     // the number of dropped bits follows, then the levels
  kIntegers = 3,   // an exponent follows, then the levels of integers: see fixed_point.h
  kMultiples = 4,  // a unit and an offset follow, then the levels of integers: see quantum.h
};

// The unpredicted base grid has at most this many samples along each axis. If the patch has few levels, the
// payload of the coarsest also holds the coarser grids down to the base.
constexpr std::int64_t kBaseExtent = 4;

// A patch in one piece makes every level cost as much as the finest, so it must be small.
constexpr std::size_t kMaxWhole = 4096;
// Largest size of the levels of such a patch: larger ones are not worth trying.
constexpr std::size_t kMaxLevelsOfWhole = 16384;
constexpr int kWholeZstdLevel = 9;

// A patch is coded as integers if the estimated saving is at least this part.
constexpr double kIntegersWorthwhile = 1.0 / 64;

std::size_t Count(const Index3& shape) { return static_cast<std::size_t>(Volume(shape)); }

/// Number of grids of a patch: its levels, and the coarser grids inside the coder.
int GridCount(const PatchLayout& layout) {
  int grids = layout.levels;
  const auto extent = [&](int grid) { return std::ranges::max(LevelShape(layout.shape, grid)); };
  while (extent(grids - 1) > kBaseExtent) ++grids;
  return grids;
}

/// Every 2^level-th sample along each axis.
template <typename T>
Buffer<T> Subsample(std::span<const T> samples, const Index3& shape, int level) {
  Buffer<T> result(Count(LevelShape(shape, level)));
  const std::int64_t step = std::int64_t{1} << level;
  T* to = result.data();
  for (std::int64_t z = 0; z < shape[2]; z += step) {
    for (std::int64_t y = 0; y < shape[1]; y += step) {
      const T* row = samples.data() + (z * shape[1] + y) * shape[0];
      for (std::int64_t x = 0; x < shape[0]; x += step) *to++ = row[x];
    }
  }
  return result;
}

const std::uint8_t* DataOrNull(Validity validity) { return validity.empty() ? nullptr : validity.data(); }

// ---- Encoding

/// Number of lowest bits that no valid sample uses; see Pass::dropped_bits.
template <typename V>
int UnusedBits(std::span<const V> samples) {
  using Word = WordOf<V>;
  Word used = 0;
  for (const V sample : samples) {
    Word bits;
    std::memcpy(&bits, &sample, sizeof(V));
    used |= bits;
  }
  return used == 0 ? 0 : std::countr_zero(used);
}

/// Payloads of all levels, without the first bytes of the coarsest.
/// @param samples  missing ones replaced by plausible values
template <typename V>
void AppendLevels(const PatchLayout& layout, std::span<const V> samples, Validity validity, int dropped_bits,
                  std::vector<Bytes>* payloads) {
  Buffer<V> coarse;
  const int grids = GridCount(layout);
  for (int g = grids - 1; g >= 0; --g) {
    const Buffer<V> grid_samples = Subsample<V>(samples, layout.shape, g);
    const Buffer<std::uint8_t> grid_valid =
        validity.empty() ? Buffer<std::uint8_t>() : Subsample<std::uint8_t>(validity, layout.shape, g);
    const GridView<V> grid{grid_samples.data(), LevelShape(layout.shape, g), DataOrNull(grid_valid),
                           dropped_bits};
    Bytes* payload = &(*payloads)[static_cast<std::size_t>(std::min(g, layout.levels - 1))];
    Buffer<V> result(grid_samples.size());
    if (g == grids - 1) {
      lossless::EncodeBase<V>(grid, payload, result.data());
    } else {
      lossless::EncodeStep<V>(coarse.data(), grid, payload, result.data());
    }
    coarse.swap(result);
  }
}

template <typename T>
class Encoder {
 public:
  /// @param samples  all of them; missing ones can be anything
  Encoder(const PatchLayout& layout, std::span<const T> samples, Validity validity)
      : layout_(layout), samples_(samples), validity_(validity) {
    if (validity.empty()) return;
    filled_.assign(samples.begin(), samples.end());
    FillPlausibly();
    samples_ = filled_;
  }

  std::vector<Bytes> Run() {
    if (IsConstant()) return Constant();
    std::vector<Bytes> levels = Levels();
    std::size_t bytes = 0;
    for (const Bytes& level : levels) bytes += level.size();
    if (bytes <= kMaxLevelsOfWhole) {
      std::vector<Bytes> whole = Whole();
      const std::size_t size = whole.back().size();
      if (size <= kMaxWhole && size < bytes) return whole;
    }
    return levels;
  }

 private:
  /// Every missing sample gets the value of the valid one before it, the first ones that of the first valid
  /// one.
  void FillPlausibly() {
    const auto first =
        std::find_if(validity_.begin(), validity_.end(), [](std::uint8_t v) { return v != 0; });
    T before = first == validity_.end() ? T{0} : filled_[static_cast<std::size_t>(first - validity_.begin())];
    for (std::size_t i = 0; i < filled_.size(); ++i) {
      if (validity_[i] == 0) filled_[i] = before;
      before = filled_[i];
    }
  }

  bool IsConstant() const {
    const std::size_t compared = (samples_.size() - 1) * sizeof(T);
    return std::memcmp(samples_.data(), samples_.data() + 1, compared) == 0;
  }

  std::vector<Bytes> Payloads(PatchMode mode) const {
    std::vector<Bytes> payloads(static_cast<std::size_t>(layout_.levels));
    payloads.back().push_back(static_cast<std::byte>(mode));
    return payloads;
  }

  std::vector<Bytes> Constant() const {
    std::vector<Bytes> payloads = Payloads(PatchMode::kConstant);
    PutLittleEndian(&payloads.back(), samples_[0]);
    return payloads;
  }

  std::vector<Bytes> Whole() const {
    Bytes best;
    for (const entropy::PlaneLayout planes : {entropy::PlaneLayout::kBytes, entropy::PlaneLayout::kWords}) {
      Bytes coded;
      entropy::AppendPlanes(std::as_bytes(samples_), sizeof(T), planes, kWholeZstdLevel, &coded);
      if (best.empty() || coded.size() < best.size()) best.swap(coded);
    }
    std::vector<Bytes> payloads = Payloads(PatchMode::kWhole);
    payloads.back().insert(payloads.back().end(), best.begin(), best.end());
    return payloads;
  }

  std::vector<Bytes> Levels() const {
    const int dropped_bits = UnusedBits<T>(samples_);
    if constexpr (std::is_floating_point_v<T>) {
      using Integer = lossless::IntegerOf<T>;
      const std::optional<int> exponent = lossless::FindExponent<T>(samples_);
      const std::optional<Quantum> quantum = FindMultiples();
      if (exponent || quantum) {
        double least = (1 - kIntegersWorthwhile) * Estimate<T>(samples_, dropped_bits);
        std::vector<Bytes> head;
        Buffer<Integer> integers(samples_.size());
        Buffer<Integer> others(samples_.size());
        if (exponent) {
          lossless::ToIntegers<T>(samples_, *exponent, others.data());
          if (IsLess(others, &least, &integers)) head = IntegersHead(*exponent);
        }
        const bool is_new =
            quantum && !(exponent && *quantum == Quantum{std::ldexp(1.0, *exponent), /*offset=*/0});
        if (is_new) {
          for (std::size_t i = 0; i < samples_.size(); ++i)
            others[i] = static_cast<Integer>(MultipleOf(*quantum, static_cast<double>(samples_[i])));
          if (IsLess(others, &least, &integers)) head = MultiplesHead(*quantum);
        }
        if (!head.empty()) {
          AppendLevels<Integer>(layout_, integers, validity_, 0, &head);
          return head;
        }
      }
    }
    std::vector<Bytes> payloads = Payloads(PatchMode::kLevels);
    payloads.back().push_back(static_cast<std::byte>(dropped_bits));
    AppendLevels<T>(layout_, samples_, validity_, dropped_bits, &payloads);
    return payloads;
  }

  /// Whether integers are estimated to take less than `least`; if so, they become `chosen`.
  template <typename Integer>
  bool IsLess(const Buffer<Integer>& integers, double* least, Buffer<Integer>* chosen) const {
    const double bytes = Estimate<Integer>(std::span<const Integer>(integers), 0);
    if (bytes >= *least) return false;
    *least = bytes;
    *chosen = integers;
    return true;
  }

  std::vector<Bytes> IntegersHead(int exponent) const {
    std::vector<Bytes> payloads = Payloads(PatchMode::kIntegers);
    PutLittleEndian(&payloads.back(), static_cast<std::int16_t>(exponent));
    return payloads;
  }

  std::vector<Bytes> MultiplesHead(const Quantum& quantum) const {
    std::vector<Bytes> payloads = Payloads(PatchMode::kMultiples);
    PutLittleEndian(&payloads.back(), SignedUnit(quantum));
    PutLittleEndian(&payloads.back(), quantum.offset);
    return payloads;
  }

  /// The quantum of which all samples are multiples, bit by bit.
  std::optional<Quantum> FindMultiples() const {
    const auto is_finite = [](T sample) { return std::isfinite(sample); };
    if (!std::all_of(samples_.begin(), samples_.end(), is_finite)) return std::nullopt;
    SampleRange<T> range(samples_[0]);
    range.Add(samples_.data(), nullptr, samples_.size());
    QuantumLimits limits;
    limits.least = static_cast<double>(range.least());
    limits.most = static_cast<double>(range.most());
    if (!(limits.least < limits.most)) return std::nullopt;
    limits.rounding = RoundingOf<T>(std::max(-limits.least, limits.most));
    limits.largest_multiple = std::ldexp(1.0, sizeof(T) == 4 ? 30 : 52);  // integers have room for it
    limits.exact = true;
    limits.pays = [](double) { return true; };
    return FindQuantum<T>(samples_, {}, limits);
  }

  /// Bytes of the finest level, estimated.
  template <typename V>
  double Estimate(std::span<const V> samples, int dropped_bits) const {
    double bytes = 0;
    lossless::SearchStepCode<V>({samples.data(), layout_.shape, DataOrNull(validity_), dropped_bits}, &bytes);
    return bytes + 1;
  }

  PatchLayout layout_;
  std::span<const T> samples_;
  Validity validity_;
  Buffer<T> filled_;
};

// ---- Decoding

/// The grids of a patch, from the coarsest level on. V is the type of the coded numbers.
template <typename V>
class LevelsDecoder {
 public:
  LevelsDecoder(const PatchLayout& layout, int dropped_bits)
      : layout_(layout), dropped_bits_(dropped_bits), level_(layout.levels) {}

  Status Advance(ByteSpan payload, Validity validity) {
    --level_;
    if (level_ == layout_.levels - 1) {
      QUARRY_RETURN_IF_ERROR(Start(&payload, validity));
    } else {
      QUARRY_RETURN_IF_ERROR(Refine(&payload, level_, DataOrNull(validity)));
    }
    if (!payload.empty()) return DataLoss("level {} has {} bytes too many", level_, payload.size());
    return Status::Ok();
  }

  std::span<const V> samples() const { return samples_; }

 private:
  Status Start(ByteSpan* payload, Validity validity) {
    const int grids = GridCount(layout_);
    const auto grid_valid = [&](int grid) {
      return validity.empty()
                 ? Buffer<std::uint8_t>()
                 : Subsample<std::uint8_t>(validity, LevelShape(layout_.shape, level_), grid - level_);
    };
    const Buffer<std::uint8_t> base_valid = grid_valid(grids - 1);
    const GridView<V> base = View(grids - 1, DataOrNull(base_valid));
    samples_.resize(Count(base.shape));
    QUARRY_RETURN_IF_ERROR(lossless::DecodeBase<V>(base, payload, samples_.data()));
    for (int grid = grids - 2; grid >= level_; --grid) {
      const Buffer<std::uint8_t> valid = grid_valid(grid);
      QUARRY_RETURN_IF_ERROR(Refine(payload, grid, DataOrNull(valid)));
    }
    return Status::Ok();
  }

  Status Refine(ByteSpan* payload, int grid, const std::uint8_t* valid) {
    const GridView<V> view = View(grid, valid);
    Buffer<V> refined(Count(view.shape));
    QUARRY_RETURN_IF_ERROR(lossless::DecodeStep<V>(samples_.data(), view, payload, refined.data()));
    samples_.swap(refined);
    return Status::Ok();
  }

  GridView<V> View(int grid, const std::uint8_t* valid) const {
    return {nullptr, LevelShape(layout_.shape, grid), valid, dropped_bits_};
  }

  PatchLayout layout_;
  int dropped_bits_;
  int level_;
  Buffer<V> samples_;
};

template <typename T>
class Decoder final : public PatchDecoder {
 public:
  explicit Decoder(const PatchLayout& layout) : layout_(layout), level_(layout.levels) {}

  int level() const override { return level_; }
  ByteSpan samples() const override {
    return std::as_bytes(mode_ == PatchMode::kLevels && levels_ ? levels_->samples()
                                                                : std::span<const T>(samples_));
  }
  std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
  std::uint64_t memory() const override {
    std::uint64_t bytes = packed_.size() + samples_.size() * sizeof(T);
    if (levels_) bytes += levels_->samples().size_bytes();
    if (integers_) bytes += integers_->samples().size_bytes();
    return bytes;
  }

  Status Advance(ByteSpan payload, Validity validity) override {
    if (level_ == 0) return InternalError("a patch of {} levels has no finer level", layout_.levels);
    const std::size_t count = Count(LevelShape(layout_.shape, level_ - 1));
    if (!validity.empty() && validity.size() != count) {
      return InternalError("level {} has {} samples and validity of {}", level_ - 1, count, validity.size());
    }
    if (level_ == layout_.levels) QUARRY_RETURN_IF_ERROR(ReadMode(&payload));
    QUARRY_RETURN_IF_ERROR(Decode(payload, validity));
    --level_;
    return Status::Ok();
  }

 private:
  using Integer = std::conditional_t<std::is_floating_point_v<T>, lossless::IntegerOf<T>, T>;

  /// The first bytes of the coarsest level.
  Status ReadMode(ByteSpan* payload) {
    if (payload->empty()) return DataLoss("the coarsest level of a patch is empty");
    mode_ = static_cast<PatchMode>((*payload)[0]);
    *payload = payload->subspan(1);
    switch (mode_) {
      case PatchMode::kConstant:
        return ReadConstant(payload);
      case PatchMode::kWhole:
        return ReadWhole(payload);
      case PatchMode::kLevels:
        return ReadDroppedBits(payload);
      case PatchMode::kIntegers:
      case PatchMode::kMultiples:
        if constexpr (std::is_floating_point_v<T>)
          return mode_ == PatchMode::kIntegers ? ReadExponent(payload) : ReadQuantum(payload);
        break;
    }
    return DataLoss("unknown patch mode {}", static_cast<int>(mode_));
  }

  Status ReadConstant(ByteSpan* payload) {
    if (payload->size() != sizeof(T))
      return DataLoss("a constant of {} bytes has {}", sizeof(T), payload->size());
    constant_ = GetLittleEndian<T>(payload->data());
    *payload = {};
    return Status::Ok();
  }

  /// All levels in one stream. Each level unpacks it again: keeping the samples of level 0 for the finer
  /// levels would take thousands of times the memory of a coarse level.
  Status ReadWhole(ByteSpan* payload) {
    QUARRY_ASSIGN_OR_RETURN(const std::size_t used, Unpack(*payload).second);
    packed_.assign(payload->begin(), payload->begin() + static_cast<std::ptrdiff_t>(used));
    *payload = payload->subspan(used);
    return Status::Ok();
  }

  /// The samples of level 0, and how many bytes of the stream they took.
  std::pair<Buffer<T>, Result<std::size_t>> Unpack(ByteSpan packed) const {
    Buffer<T> whole(Count(layout_.shape));
    Result<std::size_t> used =
        entropy::ReadPlanes(packed, sizeof(T), std::as_writable_bytes(std::span(whole)));
    return {std::move(whole), std::move(used)};
  }

  Status ReadDroppedBits(ByteSpan* payload) {
    if (payload->empty()) return DataLoss("the coarsest level of a patch ends in its first bytes");
    const int dropped_bits = std::to_integer<int>((*payload)[0]);
    if (dropped_bits >= static_cast<int>(8 * sizeof(T)))
      return DataLoss("{} bits of samples of {} bytes cannot be dropped", dropped_bits, sizeof(T));
    *payload = payload->subspan(1);
    levels_.emplace(layout_, dropped_bits);
    return Status::Ok();
  }

  Status ReadExponent(ByteSpan* payload) {
    if (payload->size() < 2) return DataLoss("the coarsest level of a patch ends in its first bytes");
    exponent_ = GetLittleEndian<std::int16_t>(payload->data());
    if (!lossless::IsExponent<T>(exponent_))
      return DataLoss("{} is not an exponent for samples of {} bytes", exponent_, sizeof(T));
    *payload = payload->subspan(2);
    integers_.emplace(layout_, 0);
    return Status::Ok();
  }

  Status ReadQuantum(ByteSpan* payload) {
    if (payload->size() < 2 * sizeof(double))
      return DataLoss("the coarsest level of a patch ends in its first bytes");
    LittleEndianReader reader(payload->data());
    const auto unit = reader.Get<double>();
    quantum_ = QuantumOf(unit, reader.Get<double>());
    if (!IsUsable(quantum_))
      return DataLoss("a patch has multiples of {} with the offset {}, which are not valid", quantum_.unit,
                      quantum_.offset);
    *payload = payload->subspan(2 * sizeof(double));
    integers_.emplace(layout_, 0);
    return Status::Ok();
  }

  Status Decode(ByteSpan payload, Validity validity) {
    const int level = level_ - 1;
    if (mode_ == PatchMode::kLevels) return levels_->Advance(payload, validity);
    if (integers_) return DecodeIntegers(payload, validity);
    if (!payload.empty()) return DataLoss("level {} has {} bytes too many", level, payload.size());
    if (mode_ == PatchMode::kConstant) {
      samples_.assign(Count(LevelShape(layout_.shape, level)), constant_);
      return Status::Ok();
    }
    auto [whole, used] = Unpack(packed_);
    QUARRY_RETURN_IF_ERROR(used.status());
    samples_ = level == 0 ? std::move(whole) : Subsample<T>(whole, layout_.shape, level);
    return Status::Ok();
  }

  Status DecodeIntegers(ByteSpan payload, Validity validity) {
    QUARRY_RETURN_IF_ERROR(integers_->Advance(payload, validity));
    const std::span<const Integer> integers = integers_->samples();
    samples_.resize(integers.size());
    if constexpr (std::is_floating_point_v<T>) {
      if (mode_ == PatchMode::kIntegers) {
        lossless::FromIntegers<T>(integers, exponent_, samples_.data());
      } else {
        for (std::size_t i = 0; i < integers.size(); ++i)
          samples_[i] = SampleOf<T>(quantum_, static_cast<double>(integers[i]));
      }
    }
    return Status::Ok();
  }

  PatchLayout layout_;
  int level_;
  PatchMode mode_ = PatchMode::kConstant;
  T constant_ = 0;
  int exponent_ = 0;  ///< exponent of PatchMode::kIntegers
  Quantum quantum_;   ///< quantum of PatchMode::kMultiples
  Bytes packed_;      ///< bytes of PatchMode::kWhole
  std::optional<LevelsDecoder<T>> levels_;
  std::optional<LevelsDecoder<Integer>> integers_;
  Buffer<T> samples_;
};

/// The samples that readers get of each level.
std::vector<Bytes> SubsampledLevels(const PatchLayout& layout, ByteSpan samples) {
  std::vector<Bytes> levels(static_cast<std::size_t>(layout.levels));
  DispatchType(layout.type, [&]<typename T>(T) {
    const std::span<const T> typed(reinterpret_cast<const T*>(samples.data()), samples.size() / sizeof(T));
    for (int l = 0; l < layout.levels; ++l) {
      const Buffer<T> level = Subsample<T>(typed, layout.shape, l);
      const ByteSpan bytes = std::as_bytes(std::span<const T>(level));
      levels[static_cast<std::size_t>(l)].assign(bytes.begin(), bytes.end());
    }
  });
  return levels;
}

}  // namespace

bool LosslessCoder::Supports(DataType type) const { return SizeOf(type) != 0; }

Result<CodedPatch> LosslessCoder::Encode(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                         double /*tolerance*/) const {
  if (!Supports(layout.type))
    return InvalidArgument("codec lossless does not code type {}", static_cast<int>(layout.type));
  const std::size_t count = Count(layout.shape);
  if (samples.empty() || samples.size() != count * SizeOf(layout.type)) {
    return InvalidArgument("a patch of shape {} has {} bytes of samples", ToString(layout.shape),
                           samples.size());
  }
  if (!validity.empty() && validity.size() != count) {
    return InvalidArgument("a patch of shape {} has validity of {} samples", ToString(layout.shape),
                           validity.size());
  }
  CodedPatch coded;
  coded.levels = DispatchType(layout.type, [&]<typename T>(T) {
    return Encoder<T>(layout, {reinterpret_cast<const T*>(samples.data()), count}, validity).Run();
  });
  coded.decoded = SubsampledLevels(layout, samples);
  return coded;
}

std::unique_ptr<PatchDecoder> LosslessCoder::NewDecoder(const PatchLayout& layout) const {
  return DispatchType(layout.type, [&]<typename T>(T) -> std::unique_ptr<PatchDecoder> {
    return std::make_unique<Decoder<T>>(layout);
  });
}

}  // namespace quarry
