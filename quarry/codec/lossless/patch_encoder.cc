#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/lossless/fixed_point.h"
#include "quarry/codec/lossless/patch_form.h"
#include "quarry/codec/lossless/step.h"
#include "quarry/codec/quantum.h"
#include "quarry/codec/sample_range.h"
#include "quarry/codec/sample_span.h"

namespace quarry::lossless {
namespace {

// A patch in one piece makes every level cost as much as the finest, so it must be small.
constexpr std::size_t kMaxWhole = 4096;
// Largest size of the levels of such a patch: larger ones are not worth trying.
constexpr std::size_t kMaxLevelsOfWhole = 16384;
constexpr int kWholeZstdLevel = 9;

// A patch is coded as integers if the estimated saving is at least this part.
constexpr double kIntegersWorthwhile = 1.0 / 64;

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
    const ValidityBuffer grid_valid = CoarserValidity(validity, layout.shape, g);
    const GridView<V> grid{grid_samples.data(), LevelShape(layout.shape, g), DataOrNull(grid_valid),
                           dropped_bits};
    Bytes* payload = &(*payloads)[static_cast<std::size_t>(std::min(g, layout.levels - 1))];
    Buffer<V> result(grid_samples.size());
    if (g == grids - 1) {
      EncodeBase<V>(grid, payload, result.data());
    } else {
      EncodeStep<V>(coarse.data(), grid, payload, result.data());
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
    filled_.resize(samples.size());
    CopyPlausibly(samples.data(), validity, filled_.data());
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
      using Integer = IntegerOf<T>;
      const std::optional<int> exponent = FindExponent<T>(samples_);
      const std::optional<Quantum> quantum = FindMultiples();
      if (exponent || quantum) {
        double least = (1 - kIntegersWorthwhile) * Estimate<T>(samples_, dropped_bits);
        std::vector<Bytes> head;
        Buffer<Integer> integers(samples_.size());
        Buffer<Integer> others(samples_.size());
        if (exponent) {
          ToIntegers<T>(samples_, *exponent, others.data());
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
    SearchStepCode<V>({samples.data(), layout_.shape, DataOrNull(validity_), dropped_bits}, &bytes);
    return bytes + 1;
  }

  PatchLayout layout_;
  std::span<const T> samples_;
  Validity validity_;
  Buffer<T> filled_;
};

}  // namespace

std::vector<Bytes> EncodeLevels(const PatchLayout& layout, ByteSpan samples, Validity validity) {
  return DispatchType(
      layout.type, [&]<typename T>(T) { return Encoder<T>(layout, SamplesOf<T>(samples), validity).Run(); });
}

}  // namespace quarry::lossless
