// The native part of the Python package: the C++ client, with samples as numpy arrays.
//
// It only translates.
// Python's lock is not held while anything is read, decoded or waited for; signals are looked at meanwhile,
// so that Ctrl-C ends a call. Names, defaults and indexing are in src/quarry.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "clients/python/answer.h"
#include "clients/python/attributes.h"
#include "clients/python/background.h"
#include "clients/python/bind.h"
#include "clients/python/dataset.h"
#include "clients/python/translate.h"
#include "clients/python/write.h"
#include "clients/python/zarr.h"
#include "quarry/client.h"
#include "quarry/client_grpc.h"
#include "quarry/query/region.h"
#include "quarry/version.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {
namespace {

/// The message of a status in the words of Python.
nb::object TextOf(const Status& status) {
  const std::string& message = status.message();
  const nb::object said =
      nb::steal(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
  return nb::module_::import_("quarry._words").attr("in_python")(said);
}

void RaiseStatus(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ArgumentError& error) {
    PyErr_SetObject(PyExc_ValueError, TextOf(error.status).ptr());
  } catch (const StatusError& error) {
    const nb::object type = nb::module_::import_("quarry._errors").attr("Error");
    const nb::object raised = type(static_cast<int>(error.status.code()), TextOf(error.status));
    PyErr_SetObject(type.ptr(), raised.ptr());
  }
}

// ---- Processes

/// gRPC's threads and connections do not survive a fork.
void UseGrpc() {
  static std::atomic<pid_t> used_by{0};
  pid_t none = 0;
  if (used_by.compare_exchange_strong(none, getpid())) return client::EnableGrpc();
  if (used_by == getpid()) return;
  throw StatusError{FailedPrecondition(
      "this process was forked from one that had opened a server, and cannot open any; start processes with "
      "multiprocessing's \"spawn\" or \"forkserver\", or open servers after the fork only")};
}

// ---- Datasets

bool IsServer(const std::string& target) {
  return target.starts_with("grpc://") || target.starts_with("grpcs://");
}

std::unique_ptr<Dataset> Open(const std::string& target, const client::Options& options) {
  const bool remote = IsServer(target);
  if (remote) UseGrpc();
  const CancelToken cancel = CancelToken::Create();
  auto opened =
      RunInBackground(cancel, !remote, [&] { return client::Dataset::Open(target, options, cancel); });
  return std::make_unique<Dataset>(Take(std::move(opened)), remote);
}

std::vector<client::DatasetSummary> List(const std::string& target, const client::Options& options) {
  if (IsServer(target)) UseGrpc();
  const CancelToken cancel = CancelToken::Create();
  return Take(RunInBackground(cancel, false, [&] { return client::ListDatasets(target, options, cancel); }));
}

/// "[1, 2, 3, ..., 9]" of a list that is long; otherwise what Python shows.
std::string ShowValue(const nb::object& value) {
  constexpr std::size_t kLongest = 8;
  if (!nb::isinstance<nb::list>(value) || nb::len(value) <= kLongest) return nb::repr(value).c_str();
  std::string text = "[";
  for (std::size_t i = 0; i < 3; ++i) text += nb::repr(value[i]).c_str() + std::string(", ");
  return text + "..., " + nb::repr(value[nb::len(value) - 1]).c_str() + "]";
}

/// Objects of a type show as "Step(step=3, time=0.5, fields=['p'])".
/// @param attributes  "fields.name": of a list, this attribute of each
template <typename T>
void Show(const char* name, std::vector<std::string> attributes) {
  nb::borrow<nb::class_<T>>(nb::type<T>()).def("__repr__", [=](nb::handle self) {
    std::string text;
    for (const std::string& attribute : attributes) {
      const std::size_t dot = std::min(attribute.find('.'), attribute.size());
      const std::string first = attribute.substr(0, dot);
      nb::object value = self.attr(first.c_str());
      if (dot < attribute.size()) {
        nb::list of_each;
        for (const nb::handle one : value) of_each.append(one.attr(attribute.c_str() + dot + 1));
        value = of_each;
      }
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", first, ShowValue(value));
    }
    return fmt::format("{}({})", name, text);
  });
}

void BindTexts() {
  Show<LevelRecord>("LevelRecord", {"max_error", "rmse", "bytes", "coverage"});
  Show<LayerRecord>("LayerRecord", {"tolerance"});
  Show<FieldSummary>("FieldStep", {"name", "source", "tolerance", "min", "max", "max_error", "raw_bytes",
                                   "stored_bytes", "valid"});
  Show<StepSummary>("Step", {"step", "time", "fields.name"});
  Show<FieldDescription>("FieldDescription", {"name", "dtype", "units", "coder", "lossless", "fill"});
  Show<client::DatasetSummary>("DatasetSummary", {"name", "shape", "steps", "fields"});
  Show<Answer>("Answer", {"field", "step", "level", "layer", "extent", "spacing", "max_error"});
  Show<query::Cost>("Price", {"patches", "bytes", "bytes_read", "reads", "reply_bytes", "coded_bytes"});
  Show<query::LevelExtent>("PlannedLevel",
                           {"level", "layer", "extent", "spacing", "max_error", "bytes", "coverage"});
  Show<query::AnswerHeader>("Plan", {"field", "step", "layer", "levels.level", "price"});
  Show<query::Histogram>("Histogram", {"begin", "end", "counts", "below", "above"});
  Show<query::StatisticsAnswer>("Statistics", {"step", "level", "valid", "missing", "min", "max", "mean",
                                               "stddev", "percentiles", "histogram"});
  Show<query::Totals>("Totals", {"valid", "min", "max", "mean"});
  Show<FieldGrid>("FieldGrid", {"shape", "patch", "levels", "dim_names"});
  Show<Dataset>("Dataset", {"grids.shape", "fields.name"});
}

void BindOptions(nb::module_& m) {
  nb::class_<client::Options>(m, "Options")
      .def(
          "__init__",
          [](client::Options* self, int threads, const std::string& encoding, int retries, double timeout,
             std::string ca, std::string certificate, std::string key, std::string token,
             std::uint64_t memory, bool allow_http, std::optional<std::string> cache,
             std::uint64_t cache_size) {
            const Result<client::Transfer> transfer = client::ParseTransfer(encoding, "");
            CheckArgument(transfer.status());
            new (self) client::Options{
                .threads = threads,
                .encoding = transfer->encoding,
                .retries = retries,
                .timeout_ms = static_cast<std::int64_t>(std::ceil(timeout * 1000)),
                .security = {std::move(ca), std::move(certificate), std::move(key), std::move(token)},
                .allow_http = allow_http,
                .cache = std::move(cache),
                .cache_size = cache_size,
                .memory = memory};
          },
          nb::kw_only(), "threads"_a, "encoding"_a, "retries"_a, "timeout"_a, "ca"_a, "certificate"_a,
          "key"_a, "token"_a, "memory"_a = 0, "allow_http"_a = false, "cache"_a = nb::none(),
          "cache_size"_a = 0);
}

}  // namespace

}  // namespace quarry::python

NB_MODULE(_quarry, m) {
  using namespace quarry::python;
  m.doc() = "The C++ client of Quarry; use the package quarry.";
  m.attr("version") = quarry::kVersion;
  // Objects may outlive the interpreter in caches of other packages; that is no leak of ours.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(&RaiseStatus);
  BindAttributes(m);
  BindDescriptions(m);
  BindAnswers(m);
  BindStatistics(m);
  BindOptions(m);
  BindDataset(m);
  BindWriting(m);
  BindZarr(m);
  BindTexts();
  m.def(
      "parse_region",
      [](const std::string& text) {
        std::vector<NamedInterval> intervals;
        for (const quarry::query::AxisInterval& one : Take(quarry::query::ParseRegion(text)))
          intervals.emplace_back(one.axis, one.low, one.high);
        return intervals;
      },
      "text"_a, "\"lat=40:50,z=0:\": (axis, low, high) of each, as Dataset.box_of takes them.");
  m.def("open_dataset", &Open, "target"_a, "options"_a);
  m.def("list_datasets", &List, "target"_a, "options"_a);
}
