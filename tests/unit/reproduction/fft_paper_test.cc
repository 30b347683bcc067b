#include "benchmarks/reproduction/model/fft_paper.h"

#include <gtest/gtest.h>

namespace quarry::reproduction {
namespace {

const PaperNumber& Find(const std::vector<PaperNumber>& numbers, const std::string& what) {
  for (const PaperNumber& number : numbers) {
    if (number.what == what) return number;
  }
  ADD_FAILURE() << "no number \"" << what << "\"";
  return numbers.front();
}

/// One row: the model's value at A = 6.3 and 75, and the A that gives the paper's; 0 where any does.
struct Row {
  const char* what;
  double printed;
  double at_75;
  double needed;
  double tolerance;
};

// Computed apart from this program, with the equations and table 1 of the paper in Python.
constexpr Row kRows[] = {
    {"GPU system of 2020", 3.69, 2.85, 80.2, 0.005},
    {"GPU: network over memory time", 35.9, 3.0, 80.7, 0.05},
    {"CPU-1 faster than GPU", 4.45, 3.08, 64.8, 0.005},
    {"network time, GPU over CPU-1", 4.71, 4.71, 0, 0.005},
    {"CPU-2: processors", 161e3, 360e3, 70.2, 500},
    {"CPU-3: processors", 132e3, 295e3, 74.9, 500},
    {"CPU-3: seconds", 0.526, 0.526, 0, 0.0005},
    {"memory over network time, torus3d, 2010", 0.103, 1.23, 61.0, 0.005},
    {"memory over network time, torus3d, 2020", 0.087, 1.03, 72.6, 0.005},
};

TEST(NumbersOfThePaper, AreThoseOfTheStudy) {
  const std::vector<PaperNumber> numbers = NumbersOfThePaper();
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    const PaperNumber& number = Find(numbers, row.what);
    EXPECT_NEAR(number.model(6.3), row.printed, row.tolerance);
    EXPECT_NEAR(number.model(75), row.at_75, row.tolerance);
    const std::optional<double> needed = MemoryConstantOf(number);
    EXPECT_EQ(needed.has_value(), row.needed > 0);
    if (needed) {
      EXPECT_NEAR(*needed, row.needed, 0.11);
    }
  }
}

// Predictions 1 and 2 need more than 64, prediction 3 less than 61.
TEST(NumbersOfThePaper, NoMemoryConstantGivesAllPredictions) {
  for (int half = 2; half < 400; ++half) {
    const double a = half / 2.0;
    bool all = true;
    for (const PaperNumber& number : NumbersOfThePaper()) {
      if (number.where.starts_with("prediction")) all = all && Agrees(number, number.model(a), 0.1);
    }
    EXPECT_FALSE(all) << a;
  }
}

// By hand: 6 x 2^(10 / 1.87) = 6 x 40.7 = 244, where the table has 134; everything else is right to its
// digits, but for the memory bandwidth, which the table lets grow 9.7 times and a doubling in 3 years 10.08
// times.
TEST(NumbersOfThePaper, TableOneIsExtrapolatedAsPrinted) {
  for (const PaperNumber& number : NumbersOfThePaper()) {
    if (number.where != "table 1") continue;
    const double value = number.model(1);
    if (number.what == "cores of a CPU in 2020") {
      EXPECT_NEAR(value, 244, 1);
    } else {
      EXPECT_TRUE(Agrees(number, value, 0.05)) << number.what << ": " << value;
    }
  }
}

// The prose of prediction 3: the ratio falls on a 3D torus, and rises on the others; 10 times by placement.
TEST(NumbersOfThePaper, OrderTheTopologiesAsPredictionThree) {
  for (const PaperNumber& number : NumbersOfThePaper()) {
    if (number.what.starts_with("growth of that") || number.what.starts_with("torus3d-ideal faster")) {
      EXPECT_TRUE(Agrees(number, number.model(kPrintedMemoryConstant), 0.06)) << number.what;
    }
  }
}

TEST(FigureFive, HasTheSystemsThatThePaperCompares) {
  const std::vector<FftBar> bars = FigureFive(75);
  ASSERT_EQ(bars.size(), 4u);
  const FftSeconds& gpu = bars[0].seconds;
  EXPECT_NEAR(bars[2].seconds.total(), gpu.total(), 1e-6) << "CPU-2 takes the same time";
  EXPECT_NEAR(bars[3].seconds.overlapped(), gpu.overlapped(), 1e-6) << "CPU-3, overlapped";
  for (std::size_t i = 1; i < bars.size(); ++i)
    EXPECT_LT(bars[i].seconds.network, gpu.network)
        << "in all cases less network communication: " << bars[i].name;
}

// 2010, 4096^3 on 79,365 CPUs, with A = 1: T_mem = 3 n^3 / P / 1.33125e9 and T_net = 2 n^3 / P^(2/3) / 6.25e8
// words/s, so 1.5 x 0.46948 x 79365^(-1/3) = 0.70423 / 42.974 = 0.016387.
TEST(FigureSix, StartsAtTheValueByHand) {
  const std::vector<FftCurve> curves = FigureSix(1);
  ASSERT_EQ(curves.size(), 4u);
  EXPECT_EQ(curves[0].topology, model::Topology::kTorus3d);
  EXPECT_EQ(curves[0].years.size(), 11u);
  EXPECT_EQ(curves[0].years.back(), 2020);
  EXPECT_NEAR(curves[0].memory_over_network[0], 0.016387, 1e-6);
}

}  // namespace
}  // namespace quarry::reproduction
