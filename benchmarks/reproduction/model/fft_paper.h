#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/reproduction/model/fft_model.h"

/// Numbers that Czechowski et al. print about 3D transforms in 2010 and 2020, and the model's value of each
/// number.
namespace quarry::reproduction {

/// The two swim lanes of section 6.
enum class FftCore { kCpu, kGpu };

/// A parameter of table 1.
struct Trend {
  double in_2010 = 0;
  double doubling_years = 1;

  double At(double year) const;
};

/// Table 1, by its rows.
struct TableOne {
  Trend flops_per_s;
  Trend cores;
  Trend dram_bandwidth_bytes_per_s;
  Trend cache_bytes;
  Trend line_bytes;
  Trend link_bandwidth_bytes_per_s;
  Trend peak_flops_per_s;  ///< memory of the machine
  Trend memory_bytes;      ///< part of the machine
};
TableOne TableOneOf(FftCore core);

/// A machine of nodes as in table 1, at the peak of that year.
FftSystem SystemOfYear(FftCore core, double year, model::Topology topology);

/// How a number of the paper is stated.
enum class Relation { kEqual, kBelow, kAbove };

/// A number that the paper prints, and the model's for it.
struct PaperNumber {
  std::string where;  ///< "prediction 1"
  std::string what;
  std::string unit;  ///< empty: a ratio
  Relation relation = Relation::kEqual;
  double paper = 0;
  std::function<double(double memory_constant)> model;
};
std::vector<PaperNumber> NumbersOfThePaper();

/// Whether the model's value is what the paper says.
/// @param tolerance  of an equality, relative
bool Agrees(const PaperNumber& number, double value, double tolerance);

/// The A with which the model gives the paper's number, or the limit of those that do where it states a
/// limit. Nothing where the model's number does not depend on A, is within 1 % with the printed A, or is not
/// reached.
std::optional<double> MemoryConstantOf(const PaperNumber& number);

/// A bar of figure 5.
struct FftBar {
  std::string name;
  double nodes = 0;
  FftSeconds seconds;
};
/// GPU, CPU-1 (of the same peak), CPU-2 (as fast), CPU-3 (as fast, with computation and network overlapped).
std::vector<FftBar> FigureFive(double memory_constant);

/// A curve of figure 6.
struct FftCurve {
  model::Topology topology{};
  std::vector<double> years;
  std::vector<double> memory_over_network;
};
std::vector<FftCurve> FigureSix(double memory_constant);

}  // namespace quarry::reproduction
