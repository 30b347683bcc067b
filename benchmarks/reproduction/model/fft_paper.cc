#include "benchmarks/reproduction/model/fft_paper.h"

#include <cmath>

namespace quarry::reproduction {
namespace {

constexpr double kFirstYear = 2010;
constexpr double kLastYear = 2020;

/// Section 6: the problem of predictions 1 and 2, and figure 5.
constexpr FftDims kExascaleDims = {21000, 21000, 21000};

/// Figure 6: the problem of 2010, which grows with the number of nodes. Its ratio depends on n only where a
/// line does not fit in the cache.
constexpr double kWeakScalingSamples = 4096;

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kPeta = 1e15;

/// The table rounds a doubling time of 1.003 years to 1.0, and the growth of ten years is exactly 1000.
const double kPeakDoublingYears = 10 / std::log2(1000.0);

FftSystem Gpu() { return SystemOfYear(FftCore::kGpu, kLastYear, model::Topology::kTorus3d); }
FftSystem Cpu1() { return SystemOfYear(FftCore::kCpu, kLastYear, model::Topology::kTorus3d); }

FftSeconds Exascale(const FftSystem& system, double a) { return PredictFft(system, kExascaleDims, a); }

/// CPU-2 or CPU-3: as many of the processors of CPU-1 as take the time of the GPU system.
FftSystem CpuAsFast(double a, bool overlapped) {
  FftSystem system = Cpu1();
  const FftSeconds gpu = Exascale(Gpu(), a);
  const Result<double> nodes =
      NodesFor(system, kExascaleDims, a, overlapped ? gpu.overlapped() : gpu.total(), overlapped);
  // Without latency, every time is reached.
  system.nodes = nodes.ok() ? *nodes : 0;
  return system;
}

double MemoryOverNetwork(model::Topology topology, double year, double a) {
  const FftSystem system = SystemOfYear(FftCore::kCpu, year, topology);
  const double growth = system.nodes / SystemOfYear(FftCore::kCpu, kFirstYear, topology).nodes;
  const double n = kWeakScalingSamples * std::cbrt(growth);
  const FftSeconds seconds = PredictFft(system, {n, n, n}, a);
  return seconds.memory / seconds.network;
}

/// Figure 4: a node of Keeneland's GPUs. Neither ratio depends on problem and nodes.
FftSeconds Keeneland(double a) {
  FftSystem system = SystemOfYear(FftCore::kGpu, kFirstYear, model::Topology::kFull);
  system.node.bus_bandwidth_bytes_per_s = 8 * kGiga;  // section 5.3.1
  system.nodes = 64;
  return PredictFft(system, {2048, 2048, 2048}, a);
}

void AddTable(std::vector<PaperNumber>* numbers) {
  const auto add = [&](const char* what, const char* unit, double paper, double value) {
    numbers->push_back({"table 1", fmt::format("{} in 2020", what), unit, Relation::kEqual, paper,
                        [value](double) { return value; }});
  };
  const TableOne cpu = TableOneOf(FftCore::kCpu);
  const TableOne gpu = TableOneOf(FftCore::kGpu);
  add("peak of a CPU", "TF/s", 3.0, cpu.flops_per_s.At(kLastYear) / kTera);
  add("peak of a GPU", "TF/s", 30, gpu.flops_per_s.At(kLastYear) / kTera);
  add("cores of a CPU", "", 134, cpu.cores.At(kLastYear));
  add("cores of a GPU", "", 18e3, gpu.cores.At(kLastYear));
  add("memory bandwidth of a CPU", "GB/s", 206, cpu.dram_bandwidth_bytes_per_s.At(kLastYear) / kGiga);
  add("memory bandwidth of a GPU", "GB/s", 1400, gpu.dram_bandwidth_bytes_per_s.At(kLastYear) / kGiga);
  add("fast memory of a CPU", "MB", 192, cpu.cache_bytes.At(kLastYear) / 1e6);
  add("fast memory of a GPU", "MB", 86.4, gpu.cache_bytes.At(kLastYear) / 1e6);
  add("line size of a CPU", "B", 128, cpu.line_bytes.At(kLastYear));
  add("line size of a GPU", "B", 256, gpu.line_bytes.At(kLastYear));
  add("link bandwidth", "GB/s", 218, cpu.link_bandwidth_bytes_per_s.At(kLastYear) / kGiga);
  add("peak of the machine", "EF/s", 4, cpu.peak_flops_per_s.At(kLastYear) / 1e18);
  add("memory of the machine", "PB", 132, cpu.memory_bytes.At(kLastYear) / kPeta);
  add("CPUs of the machine", "", 1.3e6, Cpu1().nodes);
  add("GPUs of the machine", "", 135e3, Gpu().nodes);
}

void AddFigureFour(std::vector<PaperNumber>* numbers) {
  const auto add = [&](const char* what, double paper, std::function<double(double)> model) {
    numbers->push_back({"figure 4", what, "", Relation::kEqual, paper, std::move(model)});
  };
  add("local transpose over FFT", 16.0 / 21,
      [](double a) { return Keeneland(a).shuffle / Keeneland(a).memory; });
  add("bus over FFT", 27.0 / 21, [](double a) { return Keeneland(a).bus / Keeneland(a).memory; });
}

void AddPredictionOne(std::vector<PaperNumber>* numbers) {
  const auto rate = [](double a) { return FftFlops(kExascaleDims) / Exascale(Gpu(), a).total(); };
  numbers->push_back({"prediction 1", "GPU system of 2020", "PF/s", Relation::kEqual, 2.8,
                      [rate](double a) { return rate(a) / kPeta; }});
  numbers->push_back({"prediction 1", "its fraction of the peak", "%", Relation::kEqual, 0.08,
                      [rate](double a) { return 100 * rate(a) / Gpu().peak_flops_per_s(); }});
}

void AddPredictionTwo(std::vector<PaperNumber>* numbers) {
  const auto add = [&](const char* what, const char* unit, Relation relation, double paper,
                       std::function<double(double)> model) {
    numbers->push_back({"prediction 2", what, unit, relation, paper, std::move(model)});
  };
  add("GPU: network over memory time", "", Relation::kEqual, 2.8,
      [](double a) { return Exascale(Gpu(), a).network / Exascale(Gpu(), a).memory; });
  add("CPU-1 faster than GPU", "times", Relation::kEqual, 3.2,
      [](double a) { return Exascale(Gpu(), a).total() / Exascale(Cpu1(), a).total(); });
  add("network time, GPU over CPU-1", "times", Relation::kEqual, 5,
      [](double a) { return Exascale(Gpu(), a).network / Exascale(Cpu1(), a).network; });
  add("processors, CPU-1 over GPU", "times", Relation::kAbove, 10,
      [](double) { return Cpu1().nodes / Gpu().nodes; });
  add("CPU-2: processors", "", Relation::kEqual, 350e3, [](double a) { return CpuAsFast(a, false).nodes; });
  add("CPU-2: peak", "EF/s", Relation::kEqual, 1,
      [](double a) { return CpuAsFast(a, false).peak_flops_per_s() / 1e18; });
  add("CPU-3: processors", "", Relation::kEqual, 295e3, [](double a) { return CpuAsFast(a, true).nodes; });
  add("CPU-3: seconds", "s", Relation::kEqual, 0.528,
      [](double a) { return Exascale(CpuAsFast(a, true), a).overlapped(); });
  add("processors, CPU-3 over GPU", "times", Relation::kEqual, 2.25,
      [](double a) { return CpuAsFast(a, true).nodes / Gpu().nodes; });
}

void AddPredictionThree(std::vector<PaperNumber>* numbers) {
  for (const double year : {kFirstYear, kLastYear}) {
    numbers->push_back({"prediction 3", fmt::format("memory over network time, torus3d, {}", year), "",
                        Relation::kBelow, 1,
                        [year](double a) { return MemoryOverNetwork(model::Topology::kTorus3d, year, a); }});
  }
  for (const model::Topology topology : {model::Topology::kTorus3d, model::Topology::kTorus3dIdeal,
                                         model::Topology::kTorus4d, model::Topology::kTorus5d}) {
    const bool falls = topology == model::Topology::kTorus3d;
    numbers->push_back({"prediction 3", fmt::format("growth of that, 2010 to 2020, {}", Name(topology)),
                        "times", falls ? Relation::kBelow : Relation::kAbove, 1, [topology](double a) {
                          return MemoryOverNetwork(topology, kLastYear, a) /
                                 MemoryOverNetwork(topology, kFirstYear, a);
                        }});
  }
  numbers->push_back({"prediction 3", "torus3d-ideal faster than torus3d, 2020", "times", Relation::kEqual,
                      10, [](double a) {
                        return MemoryOverNetwork(model::Topology::kTorus3dIdeal, kLastYear, a) /
                               MemoryOverNetwork(model::Topology::kTorus3d, kLastYear, a);
                      }});
}

}  // namespace

double Trend::At(double year) const { return in_2010 * std::exp2((year - kFirstYear) / doubling_years); }

TableOne TableOneOf(FftCore core) {
  const bool cpu = core == FftCore::kCpu;
  return {.flops_per_s = {(cpu ? 50.4 : 515) * kGiga, 1.7},
          .cores = {cpu ? 6.0 : 448.0, 1.87},
          .dram_bandwidth_bytes_per_s = {(cpu ? 21.3 : 144) * kGiga, 3.0},
          .cache_bytes = {cpu ? 6e6 : 2.7e6, 2.0},
          .line_bytes = {cpu ? 64.0 : 128.0, 10.2},
          .link_bandwidth_bytes_per_s = {10 * kGiga, 2.25},
          .peak_flops_per_s = {4 * kPeta, kPeakDoublingYears},
          .memory_bytes = {635 * kTera, 1.3}};
}

FftSystem SystemOfYear(FftCore core, double year, model::Topology topology) {
  const TableOne table = TableOneOf(core);
  FftSystem system;
  system.node = {.flops_per_s = table.flops_per_s.At(year),
                 .dram_bandwidth_bytes_per_s = table.dram_bandwidth_bytes_per_s.At(year),
                 .cache_bytes = table.cache_bytes.At(year),
                 .cores = table.cores.At(year)};
  system.network = {topology, table.link_bandwidth_bytes_per_s.At(year), 0};
  system.nodes = table.peak_flops_per_s.At(year) / system.node.flops_per_s;
  return system;
}

std::vector<PaperNumber> NumbersOfThePaper() {
  std::vector<PaperNumber> numbers;
  AddTable(&numbers);
  AddFigureFour(&numbers);
  AddPredictionOne(&numbers);
  AddPredictionTwo(&numbers);
  AddPredictionThree(&numbers);
  return numbers;
}

bool Agrees(const PaperNumber& number, double value, double tolerance) {
  switch (number.relation) {
    case Relation::kBelow:
      return value < number.paper;
    case Relation::kAbove:
      return value > number.paper;
    case Relation::kEqual:
      break;
  }
  return std::abs(value / number.paper - 1) <= tolerance;
}

std::optional<double> MemoryConstantOf(const PaperNumber& number) {
  constexpr double kSame = 0.01;
  if (number.relation == Relation::kEqual && Agrees(number, number.model(kPrintedMemoryConstant), kSame))
    return std::nullopt;
  // Every number of the model rises with A, or falls, or stays.
  double low = 1e-3;
  double high = 1e5;
  const bool rises = number.model(high) > number.model(low);
  const auto beyond = [&](double a) { return (number.model(a) > number.paper) == rises; };
  const double change = number.model(high) / number.model(low) - 1;
  if (std::abs(change) < 1e-6 || beyond(low) || !beyond(high)) return std::nullopt;
  for (int step = 0; step < 60; ++step) {
    const double middle = std::sqrt(low * high);
    (beyond(middle) ? high : low) = middle;
  }
  return high;
}

std::vector<FftBar> FigureFive(double memory_constant) {
  std::vector<FftBar> bars;
  const auto add = [&](const char* name, const FftSystem& system) {
    bars.push_back({name, system.nodes, Exascale(system, memory_constant)});
  };
  add("GPU", Gpu());
  add("CPU-1", Cpu1());
  add("CPU-2", CpuAsFast(memory_constant, false));
  add("CPU-3", CpuAsFast(memory_constant, true));
  return bars;
}

std::vector<FftCurve> FigureSix(double memory_constant) {
  std::vector<FftCurve> curves;
  for (const model::Topology topology : {model::Topology::kTorus3d, model::Topology::kTorus4d,
                                         model::Topology::kTorus5d, model::Topology::kTorus3dIdeal}) {
    FftCurve curve{topology, {}, {}};
    for (double year = kFirstYear; year <= kLastYear; ++year) {
      curve.years.push_back(year);
      curve.memory_over_network.push_back(MemoryOverNetwork(topology, year, memory_constant));
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace quarry::reproduction
