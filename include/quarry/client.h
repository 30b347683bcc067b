#pragma once

#include <cassert>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/bytes.h"
#include "quarry/cancel_token.h"
#include "quarry/description.h"
#include "quarry/points_question.h"
#include "quarry/question.h"
#include "quarry/result.h"
#include "quarry/statistics_question.h"

// clang-format off
/// Any box of a simulation, at any resolution, from C++:
///
///   auto dataset = quarry::client::Dataset::Open("run42.quarry");
///   if (!dataset.ok()) return Complain(dataset.status().message());
///   auto answer = (*dataset)->Read({.field = "pressure",
///                                   .box = quarry::Box{{0, 0, 0}, {64, 64, 64}},
///                                   .target = quarry::query::AtLevel{1}});
///   if (answer.ok()) Use(answer->SamplesAs<float>(), answer->extent.shape());
///
// clang-format on
/// A server's datasets open the same way, "grpc://127.0.0.1:50051/run42", in programs that link
/// quarry::client_grpc and have called EnableGrpc (quarry/client_grpc.h).
///
/// Boxes are half-open, in level-0 samples, x, y, z; samples are dense, x fastest, in native byte order.
/// Errors are values: every function returns a Status or a Result, nothing throws except std::bad_alloc.
namespace quarry::client {

/// Some samples of an answer whose payload is damaged.
struct DamagedBox {
  Box extent;           ///< as in LevelSamples
  int shown_level = 0;  ///< a coarser one, each sample repeats the one at or before it; or the level itself
  int shown_layer = 0;  ///< layer of accuracy: a rougher one, or that of the answer
};

/// The samples of one level of an answer.
struct LevelSamples {
  std::string field;
  std::uint64_t step = 0;
  int level = 0;
  int layer = 0;  ///< layer of accuracy
  Box extent;  ///< level samples of the whole grid: sample i lies on level-0 sample i * spacing; may be empty
  DataType type = DataType::kFloat32;
  /// [unit of the field] largest error that a viewer of this level sees, see LevelRecord; infinite if damaged
  /// samples are shown, whose error has no known bound
  double max_error = 0;
  double coverage = 1;              ///< share of the valid samples that it can show, see LevelRecord
  int finest_level = 0;             ///< finest level of the answer: `level` of the last call
  int last_layer = 0;               ///< last layer of the answer: `layer` of the last call
  Index3 spacing{1, 1, 1};          ///< 2^level along every axis, or the requested stride
  bool may_miss = true;             ///< false: no sample of the patches that were read is missing
  std::vector<DamagedBox> damaged;  ///< empty unless the request allows damage
  /// without the requested values: these samples hold the field's fill value, otherwise NaN, or 0 for
  /// integers
  std::vector<Box> left_out;
  Bytes data;                   ///< the samples, unless they went to the caller's own memory; see bytes()
  std::span<std::byte> buffer;  ///< the caller's own memory, see CallOptions
  std::shared_ptr<const FieldDescription> description;  ///< the field; from a Reader without its attributes

  /// Whether nothing better follows in the answer.
  bool last() const { return level == finest_level && layer == last_layer; }
  /// extent.volume() samples; missing ones as in the original: NaN, infinite, the field's fill.
  ByteSpan bytes() const { return buffer.empty() ? ByteSpan(data) : ByteSpan(buffer); }
  /// The samples as T, which must be of the size of `type`.
  template <typename T>
  std::span<const T> SamplesAs() const {
    assert(sizeof(T) == SizeOf(type));
    return {reinterpret_cast<const T*>(bytes().data()), bytes().size() / sizeof(T)};
  }
};

/// Cost of an answer, and its progress so far.
struct ReadCost {
  query::Cost planned;  ///< cost of the whole answer for one field and step
  std::uint64_t bytes_received =
      0;  ///< samples, payload or tiles from the network; without a server, payload read
  std::optional<query::EncodingChoice> choice;  ///< choice of a server, for Encoding::kAuto
};

/// Provides memory for the samples of a level: called when a level begins, with all of it but its samples.
/// Returns memory of exactly `bytes` bytes, aligned for the samples, that stays valid as long as the
/// LevelSamples is used; an empty span: the library's own. An error ends the read, which may leave the memory
/// half filled.
using BufferCallback =
    std::function<Result<std::span<std::byte>>(const LevelSamples& level, std::size_t bytes)>;

/// Encoding of the answers of a server.
enum class Encoding {
  kAuto,     ///< the server chooses what is complete first, over the path that the connection has seen
  kSamples,  ///< decoded by the server, which shares decoded patches between its clients
  kPatches,  ///< as stored: fewer bytes, decoded here
  kCoded,    ///< coded by the server for the question: fewest bytes of thin boxes, and of samples that need
           ///< not be exact, see Transfer::recode. Where the target is an error, kAuto may come to it as well
};

/// How a server sends an answer.
struct Transfer {
  Encoding encoding = Encoding::kAuto;
  query::Recode recode;  ///< error that kCoded may add, unless the target is an error
};

/// The transfer that options or arguments describe.
/// @param encoding  "auto", "samples", "patches" or "coded"
/// @param recode    a factor, "2x", or an error in the unit of the field, "0.01"; empty: no error is added
/// @errors kInvalidArgument: none of these; an error without "coded"
Result<Transfer> ParseTransfer(const std::string& encoding, const std::string& recode);

/// Options of one call.
struct CallOptions {
  CancelToken cancel;     ///< set by another thread or a signal handler, it ends the call with kCancelled
  BufferCallback buffer;  ///< for reads; left out: the library's own memory
  /// for reads from a server; left out: encoding and recode of Options
  std::optional<Transfer> transfer;
};

/// Called when a level is complete, with the cost so far; an error ends the read. The callback may move the
/// samples out.
using LevelCallback = std::function<Status(LevelSamples* samples, const ReadCost& cost)>;

/// How to trust the server of a grpcs:// target, and be trusted by it. Files are in PEM format.
struct Security {
  std::string ca_file;           ///< authorities of servers; empty: those of the system
  std::string certificate_file;  ///< our own, if the server requires one
  std::string key_file;          ///< key of our certificate
  std::string token;             ///< sent with each call, over TLS or inside this machine only; empty: none
};

/// Which steps to follow.
struct WatchRequest {
  std::optional<std::uint64_t> after;  ///< only steps with larger numbers; left out: all
  std::int64_t patience_ms = 60'000;   ///< how long to look for a lost server; 0: not at all
};

/// Called with each published step; false ends the watch.
using StepCallback = std::function<bool(const StepSummary& step)>;

/// How to reach and read datasets.
struct Options {
  int threads = 0;  ///< for decoding; 0: one per processor that this process may use
  Encoding encoding = Encoding::kAuto;
  query::Recode recode;         ///< error that kCoded may add, unless the target is an error
  int retries = 5;              ///< how often in a row a broken answer is resumed from where it broke
  std::int64_t timeout_ms = 0;  ///< deadline of each call to a server; 0: none
  Security security;            ///< for servers
  bool allow_http = false;      ///< plain http:// URLs beyond this machine, which others can read and change
  /// Folder of a cache of what is read from web servers and object stores, shared by processes; empty: none.
  /// Left out: that of the variable QUARRY_CACHE.
  std::optional<std::string> cache;
  /// [bytes] of the cache at most; 0: QUARRY_CACHE_SIZE, else 10 GiB.
  std::uint64_t cache_size = 0;
  /// Memory for reads of a directory, which keeps decoded patches for the next read; more if a patch or a
  /// plan needs it. A read of more than half of it leaves nothing in memory. 0: 1 GiB.
  std::uint64_t memory = 0;
};

/// One line of a listing.
struct DatasetSummary {
  std::string name;
  std::vector<GridDescription> grids;  ///< none of a damaged dataset
  std::uint64_t steps = 0;
  std::uint64_t fields = 0;
  bool late = false;  ///< its storage did not answer in time: the name is all that is known
};

/// A dataset, in a directory or behind a server: the same answers, byte for byte, unless coding may add an
/// error, see Encoding::kCoded. Thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// @param target  a dataset directory; or its URL on a web server or in an object store,
  /// https://HOST/NAME.quarry
  ///                or s3://BUCKET/NAME.quarry; or grpc://HOST:PORT/NAME, or grpcs:// for TLS. Several
  ///                servers with the same datasets share the calls: a name with several addresses, or
  ///                grpc://IP:PORT,IP:PORT/NAME
  /// @errors kNotFound: no such dataset; kUnavailable: no server there; kDataLoss: dataset.json is damaged;
  /// kUnauthenticated, kPermissionDenied: the server wants another token; kInvalidArgument: a token over
  /// plain text, or a server in a program that has not called EnableGrpc
  static Result<std::unique_ptr<Dataset>> Open(const std::string& target, const Options& options = {},
                                               const CancelToken& cancel = {});

  virtual const DatasetDescription& description() const = 0;

  /// The numbers of all steps published by now, in ascending order. No step.json is read.
  virtual Result<std::vector<std::uint64_t>> StepNumbers(const CallOptions& call = {}) const = 0;

  /// The record of one step. @errors kNotFound: no such step; kDataLoss: it is damaged
  virtual Result<StepDescription> Step(std::uint64_t number, const CallOptions& call = {}) const = 0;

  /// Whether a step has a field, from less than its record where that is possible. @errors as Step
  virtual Result<bool> HasField(std::uint64_t number, const std::string& field,
                                const CallOptions& call = {}) const;

  /// All steps published by now in ascending order, with the error record of each field, from the catalogue
  /// of the dataset; where that lacks a step, from step.json.
  virtual Result<std::vector<StepSummary>> Steps(const CallOptions& call = {}) const = 0;

  /// The answer to Read and its cost, without reading any payload.
  Result<query::AnswerHeader> PlanRead(const query::ReadRequest& request, const CallOptions& call = {}) const;

  /// Reads level by level, coarsest first; each level is refined from the last. With a first layer, reads the
  /// last level once more in each further layer of accuracy.
  /// @errors kInvalidArgument: box or level outside; kNotFound: no such field or step, or no level within
  /// the error or the bytes; kDataLoss: a payload is damaged, and the request does not allow that; kCancelled
  Status ReadLevels(const query::ReadRequest& request, const LevelCallback& on_level,
                    const CallOptions& call = {}) const;

  /// The same for several fields and steps: step by step, and field by field in each step. Never empty.
  /// @errors besides: kInvalidArgument: more than kMaxAnswers; kNotFound: no step that has a field
  virtual Result<std::vector<query::AnswerHeader>> PlanSeries(const query::SeriesRequest& request,
                                                              const CallOptions& call = {}) const = 0;
  virtual Status ReadSeries(const query::SeriesRequest& request, const LevelCallback& on_level,
                            const CallOptions& call = {}) const = 0;

  /// Statistics of the samples of a question, with intervals that hold those of the original field. No
  /// samples are sent.
  /// @errors those of ReadLevels; kInvalidArgument: impossible percentiles, bins or range, or
  /// logarithmic bins of values that are not above 0; kUnimplemented: the server has only bins of equal width
  virtual Result<query::StatisticsAnswer> Statistics(const query::StatisticsRequest& request,
                                                     const CallOptions& call = {}) const = 0;

  /// The field at any number of points, kMaxPoints at a time: the cost is the sum of these requests.
  /// @errors kInvalidArgument: no point, or one outside the grid; kNotFound: no such field or step
  Result<query::PointsAnswer> ReadPoints(const query::PointsRequest& request,
                                         const CallOptions& call = {}) const;

  /// Follows a running simulation: calls back with every published step in ascending order, then with each
  /// step when it is published, complete and readable from this object, none twice. Returns when the callback
  /// wants no more. After a broken connection it continues after the largest number so far.
  /// Options::timeout_ms does not apply here.
  /// @errors kUnavailable: no server for longer than `patience_ms`; kNotFound: the dataset has gone;
  /// kDataLoss: a step is damaged; kUnauthenticated, kPermissionDenied: the token has been withdrawn;
  /// kCancelled
  virtual Status WatchSteps(const WatchRequest& request, const StepCallback& on_step,
                            const CallOptions& call = {}) const = 0;

  /// Reads only the wanted level and layer; drops those that `first_level` and `first_layer` ask for.
  Result<LevelSamples> Read(const query::ReadRequest& request, const CallOptions& call = {}) const;

 protected:
  /// @param request  with at most kMaxPoints points
  virtual Result<query::PointsAnswer> ReadSomePoints(const query::PointsRequest& request,
                                                     const CallOptions& call) const = 0;
};

/// A dataset that is not opened before it is read: a server gets the question in the first call, and its
/// answer describes the field as far as the samples need it. So the first samples come after one call, where
/// Dataset::Open takes another one before it. Thread-safe.
class Reader {
 public:
  virtual ~Reader() = default;

  /// Does not wait for a server; opens a directory. @param target  see Dataset::Open
  /// @errors kInvalidArgument: see Dataset::Open; for a directory those of Dataset::Open
  static Result<std::unique_ptr<Reader>> At(const std::string& target, const Options& options = {});

  /// See Dataset::ReadSeries. A caller that does not know the sizes of the grid leaves the box out, or open
  /// with query::kGridEnd.
  /// @errors besides: those of Dataset::Open; kNotFound, kInvalidArgument and kUnimplemented also from older
  /// servers, to a question without a field or with an open box, or for a field that refers to other steps:
  /// then open the dataset
  virtual Status ReadSeries(const query::SeriesRequest& request, const LevelCallback& on_level,
                            const CallOptions& call = {}) const = 0;

  /// Reads only the wanted level and layer, as Dataset::Read does.
  Result<LevelSamples> Read(const query::ReadRequest& request, const CallOptions& call = {}) const;

  /// The dataset, for everything that needs its description. @errors those of Dataset::Open
  virtual Result<std::shared_ptr<const Dataset>> Open(const CancelToken& cancel = {}) const = 0;
};

/// The datasets of a server (grpc://HOST:PORT, grpcs://HOST:PORT) or of a directory, or the one dataset that
/// `target` is.
Result<std::vector<DatasetSummary>> ListDatasets(const std::string& target, const Options& options = {},
                                                 const CancelToken& cancel = {});

}  // namespace quarry::client
