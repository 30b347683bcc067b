#include "quarry/codec/quantum.h"

#include <bit>
#include <vector>

namespace quarry {
namespace {

/// Some valid samples, in order, each once.
template <typename S>
std::vector<double> Draw(std::span<const S> samples, Validity validity) {
  constexpr std::size_t kDrawn = 256;
  const std::size_t stride = samples.size() / kDrawn | 1;  // odd, so that they are not all from one column
  std::vector<double> drawn;
  for (std::size_t i = 0; i < samples.size(); i += stride) {
    if (validity.empty() || validity[i] != 0) drawn.push_back(static_cast<double>(samples[i]));
  }
  std::sort(drawn.begin(), drawn.end());
  drawn.erase(std::unique(drawn.begin(), drawn.end()), drawn.end());
  return drawn;
}

/// Distances of neighbours, the smallest first, without those that are rounding.
std::vector<double> GapsOf(const std::vector<double>& ascending, double rounding) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    const double gap = ascending[i] - ascending[i - 1];
    if (gap > kMostRoundings * rounding) gaps.push_back(gap);
  }
  std::sort(gaps.begin(), gaps.end());
  return gaps;
}

struct Divisor {
  double unit = 0;   ///< 0: none
  double count = 0;  ///< units in all gaps together
};

/// The greatest common divisor of rounded numbers: Euclid's algorithm, in which a remainder within the
/// rounding is none. The unit becomes the more accurate, the more gaps it divides.
Divisor CommonDivisor(const std::vector<double>& gaps, double rounding, double least) {
  double unit = gaps.front();
  while (unit >= least) {
    double sum = 0;
    double count = 0;
    double remainder = 0;
    for (const double gap : gaps) {
      const double k = std::nearbyint(gap / unit);
      const double rest = std::abs(gap - k * unit);
      const double doubt = kMostRoundings * rounding * (1 + k / std::max(count, 1.0));
      if (doubt > unit / 4) return {};
      if (rest > doubt) {
        remainder = rest;
        break;
      }
      sum += gap;
      count += k;
      unit = sum / count;
    }
    if (remainder == 0) return {unit, count};
    unit = remainder;
  }
  return {};
}

/// number 10^power, in one rounding; -22 <= power <= 22, where powers are exact.
double Shifted(double number, int power) {
  double factor = 1;
  for (int i = 0; i < std::abs(power); ++i) factor *= 10;
  return power < 0 ? number / factor : number * factor;
}

/// The number of fewest digits, or the reciprocal of a whole number, that is as good as `unit`.
/// @param doubt  of the unit
double Rounded(double unit, double doubt) {
  constexpr int kMostDigits = 4;
  constexpr int kMostPower = 22 - kMostDigits;
  int power = 0;
  while (power < kMostPower && Shifted(unit, power) < 1) ++power;
  while (power > -kMostPower && Shifted(unit, power) >= 10) --power;
  for (int digits = 1; digits <= kMostDigits; ++digits, ++power) {
    const double candidate = Shifted(std::nearbyint(Shifted(unit, power)), -power);
    if (std::abs(candidate - unit) <= doubt) return candidate;
  }
  const double reciprocal = 1 / std::nearbyint(1 / unit);
  return std::abs(reciprocal - unit) <= doubt ? reciprocal : unit;
}

/// Whether a sample is not its multiple as it is read.
/// @param limit  of the distance; 0: all bits are the same
template <typename S>
QUARRY_INLINE bool IsOther(const Quantum& quantum, double limit, S sample) {
  const auto number = static_cast<double>(sample);
  const S read = SampleOf<S>(quantum, MultipleOf(quantum, number));
  using Word = std::conditional_t<sizeof(S) == 4, std::uint32_t, std::uint64_t>;
  if (limit == 0) return std::bit_cast<Word>(read) != std::bit_cast<Word>(sample);
  return !(std::abs(number - static_cast<double>(read)) <= limit);
}

template <typename S>
struct CountOthers {
  /// Sets `any` to 0 if all valid samples are multiples.
  /// @param validity  null: all are valid
  QUARRY_INLINE static void Run(const S* samples, const std::uint8_t* validity, std::size_t count,
                                Quantum quantum, double limit, std::uint64_t* any) {
    std::uint64_t others = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool counts = validity == nullptr || validity[i] != 0;
      others |= counts && IsOther(quantum, limit, samples[i]) ? 1 : 0;
    }
    *any = others;
  }
};

/// The first valid sample that is not a multiple; the number of samples if all are.
template <typename S>
std::size_t FirstOther(const Quantum& quantum, double limit, std::span<const S> samples, Validity validity) {
  constexpr std::size_t kBlock = 4096;
  for (std::size_t begin = 0; begin < samples.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, samples.size() - begin);
    std::uint64_t others = 0;
    RunOnBestInstructionSet<CountOthers<S>>(samples.data() + begin,
                                            validity.empty() ? nullptr : validity.data() + begin, count,
                                            quantum, limit, &others);
    for (std::size_t i = begin; others != 0 && i < begin + count; ++i)
      if ((validity.empty() || validity[i] != 0) && IsOther(quantum, limit, samples[i])) return i;
  }
  return samples.size();
}

/// Offsets of up to two digits, of both signs, from a tenth of a number to a hundred times it; and that of
/// Celsius.
std::vector<double> RoundOffsets(double number) {
  constexpr int kMostPower = 20;
  constexpr int kMostFactor = 99;
  int power = 0;
  while (power < kMostPower && Shifted(1, power + 1) <= number) ++power;
  while (power > -kMostPower && Shifted(1, power) > number) --power;
  std::vector<double> offsets = {273.15, -273.15};
  for (int p = power - 1; p <= power + 1; ++p) {
    for (int factor = 1; factor <= kMostFactor; ++factor) {
      offsets.push_back(Shifted(factor, p));
      offsets.push_back(-offsets.back());
    }
  }
  return offsets;
}

/// Whether the multiples fit, and all samples are among them.
/// @param drawn  a sample that is not is added: the next quantum that it does not fit ends there
template <typename S>
bool IsQuantum(const Quantum& quantum, std::span<const S> samples, Validity validity,
               const QuantumLimits& limits, std::vector<double>* drawn) {
  const double largest =
      std::max(std::abs(MultipleOf(quantum, limits.least)), std::abs(MultipleOf(quantum, limits.most)));
  if (!(largest <= limits.largest_multiple)) return false;
  const double limit = limits.exact ? 0 : kMostRoundings * limits.rounding;
  // The last one added is the most likely to differ.
  for (std::size_t i = drawn->size(); i-- > 0;)
    if (IsOther(quantum, limit, static_cast<S>((*drawn)[i]))) return false;
  const std::size_t other = FirstOther(quantum, limit, samples, validity);
  if (other < samples.size()) drawn->push_back(static_cast<double>(samples[other]));
  return other == samples.size();
}

}  // namespace

template <typename S>
std::optional<Quantum> FindQuantum(std::span<const S> samples, Validity validity,
                                   const QuantumLimits& limits) {
  std::vector<double> drawn = Draw(samples, validity);
  const std::vector<double> gaps = GapsOf(drawn, limits.rounding);
  if (gaps.empty()) return std::nullopt;
  // Below, a multiple would be near every number.
  constexpr double kLeastRoundings = 6;
  const Divisor divisor =
      CommonDivisor(gaps, limits.rounding, std::max(limits.least_unit, kLeastRoundings * limits.rounding));
  if (divisor.unit == 0) return std::nullopt;
  const double limit = kMostRoundings * limits.rounding;
  // All gaps together, without the rounding of their sum.
  const double mean = (drawn.back() - drawn.front()) / divisor.count;
  const double unit =
      Rounded(mean, limit / divisor.count + 2 * std::numeric_limits<double>::epsilon() * mean);
  if (!limits.pays(unit)) return std::nullopt;
  const auto is_quantum = [&](const Quantum& quantum) {
    return IsQuantum(quantum, samples, validity, limits, &drawn);
  };
  for (const double offset : {0.0, limits.least}) {
    if (is_quantum({unit, offset})) return Quantum{unit, offset};
  }
  if (!limits.exact) return std::nullopt;
  // Files have scales of both types.
  std::vector<double> scales = {unit};
  if (const auto narrow = static_cast<double>(static_cast<float>(unit)); narrow != unit) {
    if (is_quantum({narrow, 0})) return Quantum{narrow, 0};
    scales.push_back(narrow);
  }
  for (const double scale : scales) {
    for (const double offset : RoundOffsets(std::max(-limits.least, limits.most))) {
      const Quantum quantum{scale, offset, /*rounds_product=*/true};
      if (is_quantum(quantum)) return quantum;
    }
  }
  return std::nullopt;
}

template std::optional<Quantum> FindQuantum<float>(std::span<const float>, Validity, const QuantumLimits&);
template std::optional<Quantum> FindQuantum<double>(std::span<const double>, Validity, const QuantumLimits&);

}  // namespace quarry
