#include "quarry/input/stored_values.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "quarry/base/missing.h"
#include "quarry/input/conventions.h"

namespace quarry::input::internal {
namespace {

/// A value of an attribute as a stored sample has it: attributes may have a wider type, or the other sign.
std::optional<SampleValue> AsStored(const SampleValue& value, DataType type) {
  if (type == DataType::kFloat32) {
    const auto narrow = static_cast<float>(value.nearest());
    if (std::isfinite(value.nearest()) && !std::isfinite(narrow)) return std::nullopt;
    return narrow;
  }
  if (CanHold(type, value)) return value;
  if (IsFloat(type)) return std::nullopt;
  if (IsWideInteger(type)) {
    if (const auto negative = value.As<std::int64_t>()) return static_cast<std::uint64_t>(*negative);
    if (const auto large = value.As<std::uint64_t>()) return static_cast<std::int64_t>(*large);
    return std::nullopt;
  }
  const double turn = std::ldexp(1, static_cast<int>(8 * SizeOf(type)));
  for (const double wrapped : {value.nearest() + turn, value.nearest() - turn}) {
    if (CanHold(type, wrapped) && (value.nearest() < 0) == (wrapped > value.nearest())) return wrapped;
  }
  return std::nullopt;
}

/// Reads attributes about missing samples.
class MissingReader {
 public:
  MissingReader(const ArrayInfo& array, std::vector<std::string>* warnings)
      : array_(array), type_(StoredType(array)), warnings_(warnings) {}

  MissingRule Read() {
    AddValues("_FillValue");
    const bool has_fill = array_.attributes.contains("_FillValue");
    AddValues("missing_value");
    // A bool has no third value; only a declared one makes it a number.
    const bool is_bool = GivenTypeOf(array_) == GivenType::kBool;
    if (!has_fill && array_.unwritten && !is_bool) Add(*array_.unwritten, false);
    ReadRange();
    ChooseMark();
    return rule_;
  }

 private:
  /// Integers have no NaN: a valid range alone needs a value for the samples outside it.
  void ChooseMark() {
    if (IsFloat(type_) || !rule_.values.empty() || (!rule_.least && !rule_.most)) return;
    DispatchType(type_, [&]<typename T>(T) {
      constexpr T kLowest = std::numeric_limits<T>::lowest();
      constexpr T kLargest = std::numeric_limits<T>::max();
      if (rule_.least && rule_.least->As<T>().value_or(kLowest) > kLowest) {
        rule_.values.emplace_back(kLowest);
      } else if (rule_.most && rule_.most->As<T>().value_or(kLargest) < kLargest) {
        rule_.values.emplace_back(kLargest);
      } else {
        rule_.least = rule_.most = std::nullopt;  // every value is valid
      }
    });
  }

  void Add(const SampleValue& value, bool declared) {
    const std::optional<SampleValue> stored = AsStored(value, type_);
    if (!stored) return Warn("missing_value or _FillValue", value);
    if (std::isnan(stored->nearest())) return;
    if (std::ranges::find(rule_.values, *stored) != rule_.values.end()) return;
    if (rule_.values.empty()) rule_.declared = declared;
    rule_.values.push_back(*stored);
  }

  void AddValues(const std::string& name) {
    const auto found = array_.attributes.find(name);
    if (found == array_.attributes.end()) return;
    const std::vector<SampleValue> numbers = AllNumbers(found->second);
    for (const SampleValue& value : numbers) Add(value, true);
    if (numbers.empty() && warnings_ != nullptr) {
      warnings_->push_back(fmt::format(
          "{}: its attribute {} is not a number and is ignored; if samples are missing, give --fill",
          array_.name, name));
    }
  }

  std::optional<SampleValue> Limit(const std::string& name, const SampleValue& value) {
    const std::optional<SampleValue> stored = AsStored(value, type_);
    if (!stored || std::isnan(stored->nearest())) {
      if (!std::isnan(value.nearest())) Warn(name, value);
      return std::nullopt;
    }
    return stored;
  }

  void ReadRange() {
    const auto range = array_.attributes.find("valid_range");
    if (range != array_.attributes.end() && AllNumbers(range->second).size() == 2) {
      const std::vector<SampleValue> numbers = AllNumbers(range->second);
      rule_.least = Limit("valid_range", numbers[0]);
      rule_.most = Limit("valid_range", numbers[1]);
      return;
    }
    for (const bool upper : {false, true}) {
      const std::string name = upper ? "valid_max" : "valid_min";
      const auto found = array_.attributes.find(name);
      if (found == array_.attributes.end()) continue;
      const std::vector<SampleValue> numbers = AllNumbers(found->second);
      if (!numbers.empty()) (upper ? rule_.most : rule_.least) = Limit(name, numbers.front());
    }
  }

  void Warn(const std::string& name, const SampleValue& value) {
    if (warnings_ == nullptr) return;
    warnings_->push_back(fmt::format("{}: its attribute {}, {}, is not a value of {} and is ignored",
                                     array_.name, name, value, Name(type_)));
  }

  const ArrayInfo& array_;
  const DataType type_;
  std::vector<std::string>* warnings_;
  MissingRule rule_;
};

/// The value of a rule as a sample of this type. Only NaN has none; no sample equals it.
template <typename T>
T ValueOf(const SampleValue& value) {
  return value.As<T>().value_or(static_cast<T>(0));
}

/// Tests samples of one type.
template <typename T>
class MissingTest {
 public:
  explicit MissingTest(const MissingRule& rule) {
    for (const SampleValue& value : rule.values) values_.push_back(ValueOf<T>(value));
    if (rule.least) least_ = ValueOf<T>(*rule.least);
    if (rule.most) most_ = ValueOf<T>(*rule.most);
  }

  bool operator()(T sample) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(sample)) return true;
    }
    if (sample < least_ || sample > most_) return true;
    for (const T value : values_) {
      if (sample == value) return true;
    }
    return false;
  }

 private:
  std::vector<T> values_;
  T least_ = std::numeric_limits<T>::lowest();
  T most_ = std::numeric_limits<T>::max();
};

}  // namespace

SampleValue NetcdfFill(DataType type) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat64:
      return 9.9692099683868690e+36;
    case DataType::kInt8:
      return -127;
    case DataType::kUint8:
      return 255;
    case DataType::kInt16:
      return -32767;
    case DataType::kUint16:
      return 65535;
    case DataType::kInt32:
      return -2147483647;
    case DataType::kUint32:
      return 4294967295;
    case DataType::kInt64:
      return std::int64_t{-9223372036854775806};
    case DataType::kUint64:
      break;
  }
  return std::uint64_t{18446744073709551614U};
}

MissingRule FindMissing(const ArrayInfo& array, std::vector<std::string>* warnings) {
  return MissingReader(array, warnings).Read();
}

std::optional<Packing> FindPacking(const ArrayInfo& array) {
  Packing packing;
  packing.scale = Number(array.attributes, "scale_factor").value_or(1);
  packing.offset = Number(array.attributes, "add_offset").value_or(0);
  if (packing.scale == 1 && packing.offset == 0) return std::nullopt;
  const bool is_wide = array.type && SizeOf(*array.type) >= 4 &&
                       *array.type != DataType::kFloat32;  // more digits than float32
  if (is_wide) packing.unpacked = DataType::kFloat64;
  for (const char* name : {"scale_factor", "add_offset"}) {
    const auto found = array.attributes.find(name);
    if (found != array.attributes.end() && found->second.type != DataType::kFloat32)
      packing.unpacked = DataType::kFloat64;
  }
  return packing;
}

void MarkMissing(const MissingRule& rule, DataType type, std::span<std::byte> samples) {
  DispatchType(type, [&]<typename T>(T) {
    const MissingTest<T> is_missing(rule);
    T marked{};
    if constexpr (std::is_floating_point_v<T>) {
      marked = std::numeric_limits<T>::quiet_NaN();
    } else {
      marked = ValueOf<T>(rule.values.front());
    }
    for (std::size_t at = 0; at < samples.size(); at += sizeof(T)) {
      T sample;
      std::memcpy(&sample, samples.data() + at, sizeof(T));
      if (is_missing(sample)) std::memcpy(samples.data() + at, &marked, sizeof(T));
    }
  });
}

void Unpack(const Packing& packing, const MissingRule& rule, DataType stored, std::span<const std::byte> from,
            std::span<std::byte> to) {
  DispatchType(stored, [&]<typename S>(S) {
    DispatchType(packing.unpacked, [&]<typename T>(T) {
      if constexpr (std::is_floating_point_v<T>) {
        const MissingTest<S> is_missing(rule);
        for (std::size_t i = 0; i < from.size() / sizeof(S); ++i) {
          S sample;
          std::memcpy(&sample, from.data() + i * sizeof(S), sizeof(S));
          const T value = is_missing(sample)
                              ? std::numeric_limits<T>::quiet_NaN()
                              : static_cast<T>(static_cast<double>(sample) * packing.scale + packing.offset);
          std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
        }
      }
    });
  });
}

}  // namespace quarry::input::internal
