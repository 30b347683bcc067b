#include "clients/python/bind.h"
#include "clients/python/dataset.h"
#include "clients/python/translate.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {

void BindStatistics(nb::module_& m) {
  nb::class_<query::Bounded>(
      m, "Bounded", "A number of the decoded samples, and an interval that holds that of the original ones.")
      .def_ro("value", &query::Bounded::value, "The number of the decoded samples; `float()` gives it.")
      .def_ro("low", &query::Bounded::low, "The original's is at least this.")
      .def_ro("high", &query::Bounded::high, "The original's is at most this.")
      .def_ro(
          "resolved", &query::Bounded::resolved,
          "Of a percentile: False if more than a twentieth of the samples lie in the interval, without those "
          "that may be equal to the value.")
      .def("__float__", [](const query::Bounded& self) { return self.value; })
      .def("__repr__", [](const query::Bounded& self) {
        return fmt::format("Bounded(value={}, low={}, high={})", self.value, self.low, self.high);
      });
  nb::class_<query::Histogram>(m, "Histogram", "Counts in bins.")
      .def_ro("begin", &query::Histogram::begin, "Left edge of the first bin.")
      .def_ro("end", &query::Histogram::end, "Right edge of the last bin.")
      .def_prop_ro(
          "edges",
          [](const query::Histogram& self) {
            std::vector<double> edges(self.counts.empty() ? 0 : self.counts.size() + 1);
            for (std::size_t i = 0; i < edges.size(); ++i) edges[i] = self.Edge(i);
            return edges;
          },
          "All edges, one more than bins, as `numpy.histogram` returns them.")
      .def_ro("counts", &query::Histogram::counts, "Decoded samples in each bin.")
      .def_ro("low", &query::Histogram::low, "At least so many original samples are in each bin.")
      .def_ro("high", &query::Histogram::high, "At most so many original samples are in each bin.")
      .def_ro("below", &query::Histogram::below, "Samples before the first bin.")
      .def_ro("above", &query::Histogram::above, "Samples behind the last bin.");
  nb::class_<query::StatisticsAnswer>(
      m, "Statistics",
      "Statistics of the valid samples of a box at one level. Without any, the values are NaN.")
      .def_prop_ro(
          "valid", [](const query::StatisticsAnswer& self) { return self.statistics.valid; },
          "Number of samples.")
      .def_prop_ro(
          "missing", [](const query::StatisticsAnswer& self) { return self.statistics.missing; },
          "Number of missing samples.")
      .def_prop_ro(
          "min", [](const query::StatisticsAnswer& self) { return self.statistics.min; }, "The smallest.")
      .def_prop_ro(
          "max", [](const query::StatisticsAnswer& self) { return self.statistics.max; }, "The largest.")
      .def_prop_ro(
          "mean", [](const query::StatisticsAnswer& self) { return self.statistics.mean; },
          "Sum over number.")
      .def_prop_ro(
          "stddev", [](const query::StatisticsAnswer& self) { return self.statistics.stddev; },
          "The root of the mean of the squares of the differences from the mean.")
      .def_prop_ro(
          "percentiles",
          [](const query::StatisticsAnswer& self) {
            std::vector<std::pair<double, query::Bounded>> percentiles;
            for (const query::Percentile& one : self.statistics.percentiles)
              percentiles.emplace_back(one.percent, one.at);
            return percentiles;
          },
          "(percent, value) for each that was asked for: the smallest value that this share does not exceed.")
      .def_prop_ro(
          "histogram", [](const query::StatisticsAnswer& self) { return self.statistics.histogram; },
          "Histogram with as many bins as were asked for.")
      .def_prop_ro(
          "level", [](const query::StatisticsAnswer& self) { return self.header.levels.back().level; },
          "The level that was looked at; 0 is full resolution.")
      .def_prop_ro(
          "step", [](const query::StatisticsAnswer& self) { return self.header.step; }, "Number of the step.")
      .def_prop_ro(
          "price", [](const query::StatisticsAnswer& self) { return self.header.cost; },
          "Price of reading the samples; none of them is delivered.");
  nb::class_<query::Totals>(m, "Totals", "Statistics of several steps together.")
      .def_ro("valid", &query::Totals::valid, "Number of samples.")
      .def_ro("min", &query::Totals::min, "The smallest.")
      .def_ro("max", &query::Totals::max, "The largest.")
      .def_ro("mean", &query::Totals::mean, "Sum over number.");
  m.def(
      "together",
      [](const std::vector<query::StatisticsAnswer>& answers) {
        std::vector<query::Statistics> parts;
        for (const query::StatisticsAnswer& answer : answers) parts.push_back(answer.statistics);
        return query::Together(parts);
      },
      "answers"_a);
}

}  // namespace quarry::python
