// How much longer than zfp alone does a box take through the server? Both sides decode the same payloads on
// the same number of threads, in turns, in one run; the answer is the ratio of their medians.
#include <zfp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "quarry/base/file.h"
#include "quarry/base/memory.h"
#include "quarry/client.h"
#include "quarry/client_grpc.h"
#include "quarry/codec/wavelet_zfp/lifting.h"
#include "quarry/command_line/command_line.h"
#include "quarry/dataset/dataset.h"
#include "server/grpc/listener.h"

namespace {

using quarry::Index3;
using quarry::Status;
using quarry::Volume;

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One zfp stream, padded as zfp needs it, with the shape of its array (docs/format.md, payload of
/// wavelet-zfp).
struct ZfpPayload {
  std::vector<std::uint64_t> words;
  Index3 shape;
};

/// zfp and nothing else: no checksum, no copy, no transform.
void DecodeWithZfp(const ZfpPayload& payload, std::vector<float>* samples) {
  const Index3& n = payload.shape;
  if (samples->size() < static_cast<std::size_t>(Volume(n)))
    samples->resize(static_cast<std::size_t>(Volume(n)));
  bitstream* bits = stream_open(const_cast<std::uint64_t*>(payload.words.data()), payload.words.size() * 8);
  zfp_stream* stream = zfp_stream_open(bits);
  zfp_stream_set_accuracy(stream, 1.0);
  zfp_stream_rewind(stream);
  zfp_field* field = zfp_field_3d(samples->data(), zfp_type_float, static_cast<std::size_t>(n[0]),
                                  static_cast<std::size_t>(n[1]), static_cast<std::size_t>(n[2]));
  zfp_decompress(stream, field);
  zfp_field_free(field);
  zfp_stream_close(stream);
  stream_close(bits);
}

/// The length before a stream: seven bits a byte, lowest first.
std::size_t TakeLength(const std::byte** next) {
  std::size_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = std::to_integer<std::size_t>(*(*next)++);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

/// The zfp streams of every patch and level that the plan needs, in memory.
quarry::Result<std::vector<std::vector<ZfpPayload>>> LoadPayloads(const quarry::Dataset& dataset,
                                                                  const quarry::query::ReadPlan& plan) {
  std::vector<std::vector<ZfpPayload>> patches;
  for (const quarry::query::PlannedPatch& patch : plan.patches) {
    const auto location = quarry::SubfileLocation(dataset.root(), plan.query.step,
                                                  dataset.description().fields[plan.query.field_number].name,
                                                  patch.entry.subfile);
    QUARRY_ASSIGN_OR_RETURN(const auto file, location.Open());
    patches.emplace_back();
    for (int level = plan.query.level; level < plan.dataset_levels; ++level) {
      const quarry::format::LevelEntry& entry = patch.entry.patch.levels[static_cast<std::size_t>(level)];
      const bool coarsest = level == plan.dataset_levels - 1;
      const std::size_t skip = coarsest ? 10 : 1;  // mode and unit, then the kind of the array
      if (entry.size <= skip) continue;
      quarry::Bytes bytes(entry.size);
      QUARRY_RETURN_IF_ERROR(file->ReadAt(entry.offset, bytes));
      if (bytes[skip - 1] != std::byte{1}) continue;  // small arrays are stored without zfp
      const Index3 shape = quarry::LevelShape(patch.samples.shape(), level);
      const auto slabs = quarry::wavelet_zfp::DetailSlabs(shape);
      const auto arrays =
          coarsest ? std::vector<Index3>{shape} : std::vector<Index3>(slabs.begin(), slabs.end());
      const std::byte* next = bytes.data() + skip;
      for (std::size_t a = 0; a < arrays.size(); ++a) {
        std::size_t size = static_cast<std::size_t>(bytes.data() + bytes.size() - next);
        if (a + 1 < arrays.size()) size = TakeLength(&next);
        ZfpPayload payload;
        payload.shape = arrays[a];
        payload.words.resize(size / 8 + 64);
        std::memcpy(payload.words.data(), next, size);
        next += size;
        patches.back().push_back(std::move(payload));
      }
    }
  }
  return patches;
}

/// Decodes all patches; each thread takes the next one until none is left.
/// @param samples  memory of each thread; as many threads as elements
void DecodePatches(const std::vector<std::vector<ZfpPayload>>& patches,
                   std::vector<std::vector<float>>* samples) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (std::vector<float>& own : *samples) {
    threads.emplace_back([&patches, &next, &own] {
      for (std::size_t i = next++; i < patches.size(); i = next++) {
        for (const ZfpPayload& payload : patches[i]) DecodeWithZfp(payload, &own);
      }
    });
  }
}

struct Options {
  std::string dataset;
  std::string box = "128:384,128:384,128:384";
  int threads = 2;
  int repeats = 9;
};

/// A server of one dataset on a free port.
class FreshServer {
 public:
  explicit FreshServer(const Options& options)
      : service_({options.dataset, {}, std::filesystem::temp_directory_path()},
                 {std::uint64_t{4} << 30, options.threads}, &operations_) {}

  quarry::Result<std::unique_ptr<quarry::client::Dataset>> Open() {
    quarry::server::ListenOptions listen;
    listen.address = "127.0.0.1:0";
    QUARRY_ASSIGN_OR_RETURN(listener_, quarry::server::Listener::Start(listen, &service_));
    QUARRY_ASSIGN_OR_RETURN(const auto found, service_.catalog().List());
    return quarry::client::Dataset::Open(
        fmt::format("grpc://{}/{}", listener_->address(), found->datasets.at(0).name));
  }

 private:
  quarry::server::Operations operations_;
  quarry::server::Service service_;
  std::unique_ptr<quarry::server::Listener> listener_;
};

Status Run(const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, quarry::Dataset::Open(options.dataset));
  quarry::query::ReadRequest request;
  request.field = dataset->description().fields.at(0).name;
  QUARRY_ASSIGN_OR_RETURN(request.box, quarry::ParseBox(options.box, dataset->description().grids[0].dims));
  QUARRY_ASSIGN_OR_RETURN(const quarry::query::ReadPlan plan, dataset->Plan(request));
  if (plan.type != quarry::DataType::kFloat32)
    return quarry::InvalidArgument("this benchmark reads float32 fields");
  if (plan.coder != quarry::CoderId::kWaveletZfp || plan.query.mask != 0)
    return quarry::InvalidArgument(
        "this benchmark compares with zfp; convert a field without missing samples with --codec wavelet-zfp");
  QUARRY_ASSIGN_OR_RETURN(const auto payloads, LoadPayloads(*dataset, plan));

  // The samples of a patch, for each thread; kept from turn to turn.
  std::vector<std::vector<float>> samples(static_cast<std::size_t>(options.threads));
  Status status;
  std::vector<double> zfp_seconds;
  std::vector<double> server_seconds;
  for (int repeat = 0; repeat <= options.repeats; ++repeat) {
    const double zfp = Seconds([&] { DecodePatches(payloads, &samples); });
    // A server of its own for each turn: a server keeps what it has decoded.
    FreshServer server(options);
    QUARRY_ASSIGN_OR_RETURN(const auto client, server.Open());
    QUARRY_RETURN_IF_ERROR(client->PlanRead(request).status());  // the connection is not timed
    const double served = Seconds([&] {
      const auto answer = client->Read(request);
      if (!answer.ok()) status = answer.status();
    });
    QUARRY_RETURN_IF_ERROR(status);
    if (repeat == 0) continue;  // the first turn warms caches and connections
    zfp_seconds.push_back(zfp);
    server_seconds.push_back(served);
  }
  fmt::print("box {} of {}: {} patches, {} bytes of payload, {} threads, median of {}\n",
             quarry::ToString(plan.query.box), quarry::ToString(dataset->description().grids[0].dims),
             plan.cost.patches, plan.cost.bytes, options.threads, options.repeats);
  fmt::print("zfp alone          {:.4f} s\nthrough the server {:.4f} s\nratio              {:.3f}\n",
             Median(zfp_seconds), Median(server_seconds), Median(server_seconds) / Median(zfp_seconds));
  return Status::Ok();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  quarry::command_line::Parser app(
      "serve_box_bench", "Time of a box through the server over the time of zfp alone on the same payloads.");
  app.AddOption("DATASET", &options.dataset, "dataset with a float32 field").Required();
  app.AddOption("--box", &options.box, "x0:x1,y0:y1,z0:z1");
  app.AddOption("--threads", &options.threads, "decoding threads on both sides").Between(1, 1024);
  app.AddOption("--repeats", &options.repeats, "turns that count");
  quarry::KeepFreedMemory();
  quarry::client::EnableGrpc();
  return RunProgram(&app, argc, argv, [&]() -> quarry::Result<int> {
    QUARRY_RETURN_IF_ERROR(Run(options));
    return 0;
  });
}
