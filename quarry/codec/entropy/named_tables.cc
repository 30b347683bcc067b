#include "quarry/codec/entropy/named_tables.h"

#include <array>
#include <cstring>

namespace quarry::entropy {
namespace {

/// Scales without low bits; the others share the symbols of the last four of these.
constexpr int kScales = 28;
constexpr std::size_t kTables = kNamedShapes * kScales;
constexpr std::size_t kMagnitudes = kLargestSymbol / 2 + 1;

/// Fixed-point numbers below 1.
constexpr int kOne = 30;
constexpr std::uint64_t Multiply(std::uint64_t a, std::uint64_t b) { return a * b >> kOne; }

/// exp(-2^(-j / 4)) in 2^-30, for j = kFirstDecay, ...; all earlier ones are 0.
constexpr int kFirstDecay = -17;
constexpr std::array<std::uint32_t, 52> kDecays = {
    6,          121,        1541,       13104,      79281,      360200,     1286253,    3751106,
    9226469,    19666268,   37163206,   63464312,   99533137,   145315154,  199759078,  261044606,
    326914198,  395007542,  463130302,  529428476,  592470630,  651257337,  705182512,  753969162,
    797596699,  836230973,  870163178,  899760092,  925425813,  947573834,  966607779,  982908970,
    996829173,  1008687096, 1018767490, 1027321989, 1034571010, 1040706261, 1045893524, 1050275481,
    1053974460, 1057095000, 1059726201, 1061943836, 1063812229, 1065385899, 1066710993, 1067826536,
    1068765495, 1069555701, 1070220635, 1070780095};

constexpr std::uint64_t Decay(int j) {
  return j < kFirstDecay ? 0 : kDecays[static_cast<std::size_t>(j - kFirstDecay)];
}

/// The weights of the magnitudes 0, 1, ...: each is the one before times a factor, which itself is multiplied
/// by a constant.
constexpr std::array<std::uint64_t, kMagnitudes> Weights(std::uint64_t factor, std::uint64_t times) {
  std::array<std::uint64_t, kMagnitudes> weights{};
  weights[0] = std::uint64_t{1} << kOne;
  for (std::size_t q = 1; q < kMagnitudes; ++q) {
    weights[q] = Multiply(weights[q - 1], factor);
    factor = Multiply(factor, times);
  }
  return weights;
}

constexpr std::array<std::uint64_t, kMagnitudes> WeightsOf(std::size_t shape, int scale) {
  constexpr std::uint64_t kUnchanged = std::uint64_t{1} << kOne;
  const int j = scale - 12;
  switch (shape) {
    case 0: {  // seven parts of scale s, and one that is 2^1.5 times as wide
      std::array<std::uint64_t, kMagnitudes> weights = Weights(Decay(j), kUnchanged);
      const std::array<std::uint64_t, kMagnitudes> wide = Weights(Decay(j + 6), kUnchanged);
      for (std::size_t q = 0; q < kMagnitudes; ++q) weights[q] = 7 * weights[q] + wide[q];
      return weights;
    }
    case 1:
      return Weights(Decay(j), kUnchanged);
    case 2: {  // exp(-(|q|/s + (q/s)^2) / 2)
      const std::uint64_t square = Decay(2 * j + 4);
      return Weights(Multiply(Decay(j + 4), square), Multiply(square, square));
    }
    default: {
      const std::uint64_t square = Decay(2 * j);
      return Weights(square, Multiply(square, square));
    }
  }
}

SymbolTable MakeTable(std::size_t shape, int scale) {
  const std::array<std::uint64_t, kMagnitudes> weights = WeightsOf(shape, scale);
  std::uint64_t sum = weights[0];
  for (std::size_t q = 1; q < kMagnitudes; ++q) sum += 2 * weights[q];
  SymbolTable table;
  std::uint32_t left = 1u << kNamedBits;
  for (std::size_t q = 1; q < kMagnitudes; ++q) {
    std::uint64_t frequency = ((weights[q] << (kNamedBits + 1)) + sum) / (2 * sum);
    // A value that is left out costs an escape: from an eighth of the smallest frequency on, it is in.
    if (frequency == 0 && weights[q] << (kNamedBits + 3) >= sum) frequency = 1;
    table.frequencies[2 * q - 1] = static_cast<std::uint16_t>(frequency);
    table.frequencies[2 * q] = static_cast<std::uint16_t>(frequency);
    left -= static_cast<std::uint32_t>(2 * frequency);
  }
  table.frequencies[0] = static_cast<std::uint16_t>(left);
  return table;
}

/// All of them, with their slots: a megabyte.
struct Tables {
  std::array<SymbolTable, kTables> tables;
  std::array<std::uint8_t, kTables> largest{};  ///< symbols
  std::vector<std::uint32_t> slots;

  Tables() {
    for (std::size_t shape = 0; shape < kNamedShapes; ++shape) {
      for (int scale = 0; scale < kScales; ++scale)
        tables[shape * kScales + static_cast<std::size_t>(scale)] = MakeTable(shape, scale);
    }
    for (std::size_t t = 0; t < kTables; ++t) {
      std::size_t symbol = kLargestSymbol;
      while (tables[t].frequencies[symbol] == 0) --symbol;
      largest[t] = static_cast<std::uint8_t>(symbol);
    }
    MakeSlots(tables, kNamedBits, &slots);
  }

  static const Tables& Get() {
    static const auto& tables = *new const Tables;
    return tables;
  }
};

std::size_t Number(TableName name) {
  const int scale = name & 63;
  return (name >> 6) * std::size_t{kScales} + static_cast<std::size_t>(scale - 4 * ShiftOf(name));
}

}  // namespace

const SymbolTable& NamedTable(TableName name) { return Tables::Get().tables[Number(name)]; }

std::uint8_t LargestSymbolOf(TableName name) { return Tables::Get().largest[Number(name)]; }

void MakeNamedSlots(std::span<const TableName> names, std::vector<std::uint32_t>* slots) {
  constexpr std::size_t kSize = std::size_t{1} << kNamedBits;
  const Tables& tables = Tables::Get();
  if (slots->size() < names.size() * kSize) slots->resize(names.size() * kSize);
  for (std::size_t t = 0; t < names.size(); ++t)
    std::memcpy(slots->data() + t * kSize, tables.slots.data() + Number(names[t]) * kSize,
                kSize * sizeof(std::uint32_t));
}

}  // namespace quarry::entropy
