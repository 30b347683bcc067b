#include "server/http/zarr_front.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "quarry/format/proto_convert.h"
#include "quarry/zarr/chunk_buffer.h"
#include "server/http/zarr_messages.h"

namespace quarry::server::http {
namespace {

namespace pb = ::quarry::v1;

/// [bytes] Of all hierarchies that are kept.
std::uint64_t MostKept(const Service& service) {
  constexpr std::uint64_t kPartOfMemory = 16;
  return std::clamp<std::uint64_t>(service.store().state().total / kPartOfMemory, 8 << 20, 128 << 20);
}

/// A call of this process for a client of HTTP, who gets one answer whatever the messages are.
class InnerStream : public MessageStream {
 public:
  explicit InnerStream(HttpPeer* peer) : peer_(peer) {}

  void SendHeaders() override {}
  bool Finish(const Status& status, const std::string&) override {
    status_ = status;
    return true;
  }
  void Refuse(const Status& status, const std::string&) override { status_ = status; }

  /// How the call has ended; what went wrong here comes first.
  const Status& status() const { return error_.ok() ? status_ : error_; }
  /// Whether the answer has begun: it may have broken off since.
  bool sent() const { return sent_; }

 protected:
  HttpPeer* const peer_;
  Status error_;
  bool sent_ = false;

 private:
  Status status_;
};

/// Sends a value that is at hand, as the messages of a call without a question.
class ValueStream final : public InnerStream {
 public:
  using InnerStream::InnerStream;

  Result<std::string> Receive(std::size_t) override { return InternalError("a value has no question"); }
  bool Send(const Message& message, Follows) override {
    sent_ = true;
    Outgoing outgoing;
    outgoing.Add(message);
    return peer_->Write(&outgoing);
  }
};

/// Puts a chunk together, and sends it while its memory is still counted for the call.
class ChunkStream final : public InnerStream {
 public:
  /// @param part  of the chunk; nothing: all of it
  ChunkStream(const pb::ReadRequest& question, const zarr::Entry& entry, std::optional<ByteRange> part,
              Answer answer, HttpPeer* peer)
      : InnerStream(peer),
        question_(question.SerializeAsString()),
        entry_(entry),
        part_(part),
        answer_(std::move(answer)) {}

  Result<std::string> Receive(std::size_t most) override {
    if (question_.size() <= most) return question_;
    return ResourceExhausted("the name of the dataset is too long");
  }
  bool Send(const Message& message, Follows) override {
    std::string bytes;
    for (const SharedBytes& piece : message)
      bytes.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
    error_ = Take(bytes);
    return error_.ok();
  }
  std::uint64_t kept() const override { return entry_.size; }

 private:
  Status Take(const std::string& bytes) {
    pb::ReadResponse message;
    if (!message.ParseFromString(bytes)) return InternalError("Read has answered with something else");
    if (!chunk_) chunk_.emplace(entry_.chunk);
    QUARRY_RETURN_IF_ERROR(AddSamples(message.samples(), &*chunk_));
    if (!message.has_level_end() || sent_) return Status::Ok();
    QUARRY_RETURN_IF_ERROR(chunk_->CheckComplete());
    sent_ = true;
    const auto chunk = chunk_->Take();
    const ByteRange part = part_.value_or(ByteRange{0, chunk->size()});
    answer_.body = {ByteSpan(*chunk).subspan(part.begin, part.end - part.begin), chunk};
    Outgoing outgoing = ToOutgoing(answer_, *peer_->exchange());
    answer_.body = {};
    if (peer_->Write(&outgoing)) return Status::Ok();
    return {StatusCode::kCancelled, "the client has gone"};
  }

  const std::string question_;
  const zarr::Entry& entry_;
  const std::optional<ByteRange> part_;
  Answer answer_;
  std::optional<zarr::ChunkBuffer> chunk_;
};

Answer Failed(const Status& status, bool of_chunk) {
  const int code = HttpStatusOf(status.code(), of_chunk);
  Headers headers;
  if (code == 401) headers.emplace_back("www-authenticate", "Bearer");
  if (code == 503) headers.emplace_back("retry-after", "1");
  return Answer::Say(code, status.message(), std::move(headers));
}

/// Nothing of the kind, as far as the client may know.
bool IsUnknown(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kPermissionDenied;
}

}  // namespace

int HttpStatusOf(StatusCode code, bool of_chunk) {
  switch (code) {
    case StatusCode::kUnauthenticated:
      return 401;
    case StatusCode::kPermissionDenied:
      return 403;
    case StatusCode::kNotFound:
      return of_chunk ? 422 : 404;
    case StatusCode::kUnavailable:
    case StatusCode::kResourceExhausted:
      return 503;
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
      return 504;
    case StatusCode::kInternal:
    case StatusCode::kUnknown:
      return 500;
    default:
      return 422;
  }
}

ZarrFront::ZarrFront(Service* service, bool is_public)
    : service_(service),
      is_public_(is_public && !service->operations()->tokens),
      cache_(MostKept(*service)) {}

void ZarrFront::Run(const std::string& path, Exchange* exchange) {
  HttpPeer peer(exchange);
  std::optional<Answer> likeliest;
  const Result<std::vector<zarr::Place>> places = zarr::PlacesOf(path);
  if (!places.ok()) likeliest = Failed(places.status(), false);
  for (const zarr::Place& place : places.ok() ? *places : std::vector<zarr::Place>()) {
    Outcome outcome = AnswerPlace(place, &peer);
    if (outcome.here && !outcome.answer) return;  // it was sent
    if (outcome.here || !likeliest) likeliest = std::move(outcome.answer);
    if (outcome.here) break;
  }
  const Answer answer =
      likeliest ? *std::move(likeliest) : Answer::Say(404, "there is no such key of a Zarr hierarchy");
  exchange->unsent = ToOutgoing(answer, *exchange);
}

ZarrFront::Outcome ZarrFront::AnswerPlace(const zarr::Place& place, HttpPeer* peer) {
  const bool of_chunk = zarr::IsChunkKey(place.key);
  HierarchyCache::Made hierarchy = FindKept(place, *peer);
  const auto is_field = [&] { return of_chunk && WantsField(*hierarchy, place.key, *peer); };
  if (!hierarchy || !is_field()) {
    ValueStream stream(peer);
    bool has_key = true;
    service_->Answer("Zarr", peer, &stream, [&](Call* call) -> Status {
      QUARRY_RETURN_IF_ERROR(call->AskFor(place.dataset, &service_->catalog()));
      if (!hierarchy) {
        QUARRY_ASSIGN_OR_RETURN(hierarchy, Make(place, call));
      }
      // Samples come by a call of their own, which has a cost.
      if (is_field()) return Status::Ok();
      const std::optional<zarr::Entry> entry = hierarchy->Find(place.key);
      has_key = entry.has_value();
      return has_key ? SendValue(*hierarchy, *entry, call, peer, &stream) : Status::Ok();
    });
    if (stream.sent()) return {true, std::nullopt};
    if (!has_key)
      return {false, Answer::Say(404, fmt::format("there is no \"{}\" in this hierarchy", place.key))};
    if (!stream.status().ok()) return {!IsUnknown(stream.status()), Failed(stream.status(), of_chunk)};
  }
  const zarr::Entry entry = *hierarchy->Find(place.key);
  return {true, SendField(place, entry, WantedOf(*peer->exchange()->request, entry), *hierarchy, peer)};
}

/// Whether a request wants the samples of a chunk.
bool ZarrFront::WantsField(const zarr::Hierarchy& hierarchy, const std::string& key, const HttpPeer& peer) {
  const std::optional<zarr::Entry> entry = hierarchy.Find(key);
  return entry && entry->is_of_field() && WantedOf(*peer.exchange()->request, entry).bytes;
}

/// The part of a value that a request wants.
ZarrFront::Wanted ZarrFront::WantedOf(const Request& request, const std::optional<zarr::Entry>& entry) {
  Wanted wanted;
  if (!entry) return wanted;
  const std::string tag(request.Header("if-range").value_or(entry->tag));
  if (request.method() != "HEAD" && tag == entry->tag)
    wanted.part = ParseRange(request.Header("range").value_or(""), entry->size);
  wanted.known = HasTag(request.Header("if-none-match").value_or(""), entry->tag);
  wanted.outside = wanted.part && wanted.part->begin >= wanted.part->end;
  wanted.bytes = !wanted.known && !wanted.outside && request.method() != "HEAD";
  return wanted;
}

/// The head of an answer with a value, or with a part of it.
Answer ZarrFront::Begin(const zarr::Entry& entry, const Wanted& wanted) const {
  Answer answer;
  answer.headers = {{"content-type", entry.is_document() ? "application/json" : "application/octet-stream"},
                    {"etag", entry.tag},
                    {"accept-ranges", "bytes"},
                    {"x-content-type-options", "nosniff"},
                    // A published step never changes. Its place among the steps may, and so may the dataset
                    // of a name: so caches ask again after a minute, which costs no reading.
                    {"cache-control", std::string(is_public_ ? "public, " : "private, ") +
                                          (entry.is_of_field() ? "max-age=60" : "no-cache")}};
  if (wanted.part) {
    answer.status = 206;
    answer.headers.emplace_back(
        "content-range", fmt::format("bytes {}-{}/{}", wanted.part->begin, wanted.part->end - 1, entry.size));
  }
  return answer;
}

/// Answers without reading the dataset: a document, texts, and all answers without a body.
Answer ZarrFront::AnswerKnown(const zarr::Entry& entry, const Wanted& wanted) const {
  if (wanted.known) {
    Answer answer = Begin(entry, {});
    answer.status = 304;
    return answer;
  }
  if (wanted.outside)
    return Answer::Say(416, fmt::format("the range is outside the value, which has {} bytes", entry.size),
                       {{"content-range", fmt::format("bytes */{}", entry.size)}});
  Answer answer = Begin(entry, wanted);
  if (entry.value) {
    const ByteRange part = wanted.part.value_or(ByteRange{0, entry.size});
    const ByteSpan all = std::as_bytes(std::span(*entry.value));
    answer.body = {all.subspan(part.begin, part.end - part.begin), entry.value};
  } else {
    answer.announced = entry.size;  // length of a HEAD
  }
  return answer;
}

/// @returns why there are no samples; nothing: the answer was sent
std::optional<Answer> ZarrFront::SendField(const zarr::Place& place, const zarr::Entry& entry,
                                           const Wanted& wanted, const zarr::Hierarchy& hierarchy,
                                           HttpPeer* peer) {
  ChunkStream stream(ToMessage(hierarchy.QuestionOf(entry.chunk), place.dataset), entry, wanted.part,
                     Begin(entry, wanted), peer);
  service_->Answer("Read", peer, &stream);
  if (stream.sent()) return std::nullopt;
  return Failed(stream.status().ok() ? InternalError("the read has ended without samples") : stream.status(),
                true);
}

/// Everything but the samples of a field.
Status ZarrFront::SendValue(const zarr::Hierarchy& hierarchy, const zarr::Entry& entry, Call* call,
                            HttpPeer* peer, MessageStream* stream) const {
  const Exchange& exchange = *peer->exchange();
  const Wanted wanted = WantedOf(*exchange.request, entry);
  if (wanted.bytes && !entry.value) return SendCoordinates(hierarchy, entry, wanted, call, peer, stream);
  const Outgoing outgoing = ToOutgoing(AnswerKnown(entry, wanted), exchange);
  return call->Send(stream, {outgoing.left().begin(), outgoing.left().end()});
}

/// Computed, piece by piece: they may be megabytes.
Status ZarrFront::SendCoordinates(const zarr::Hierarchy& hierarchy, const zarr::Entry& entry,
                                  const Wanted& wanted, Call* call, HttpPeer* peer,
                                  MessageStream* stream) const {
  constexpr std::uint64_t kPiece = 32 << 10;  // samples
  constexpr std::uint64_t kSample = 8;        // bytes
  const ByteRange part = wanted.part.value_or(ByteRange{0, entry.size});
  Answer answer = Begin(entry, wanted);
  answer.announced = part.end - part.begin;
  const Outgoing head = ToOutgoing(answer, *peer->exchange());
  Message message(head.left().begin(), head.left().end());
  for (std::uint64_t begin = part.begin / kSample; begin * kSample < part.end; begin += kPiece) {
    const std::uint64_t end = std::min(begin + kPiece, (part.end + kSample - 1) / kSample);
    std::string bytes;
    hierarchy.AppendCoordinates(entry.chunk, begin, end, &bytes);
    const std::uint64_t first = std::max(part.begin, begin * kSample) - begin * kSample;
    const std::uint64_t last = std::min(part.end, end * kSample) - begin * kSample;
    message.push_back(OwnBytes(bytes.substr(first, last - first)));
    QUARRY_RETURN_IF_ERROR(call->Send(stream, std::exchange(message, {})));
    if (call->Cancelled()) return {StatusCode::kCancelled, "the client has gone"};
  }
  return Status::Ok();
}

// ---- Hierarchies

/// A hierarchy that is there already, for a client that may know of it; null: a call has to look. Strangers
/// learn nothing of what is kept, neither by answers nor by their time.
HierarchyCache::Made ZarrFront::FindKept(const zarr::Place& place, const HttpPeer& peer) {
  if (!cache_.Has(place.hierarchy) || !MayKnow(place.dataset, peer)) return nullptr;
  const auto opened = service_->catalog().Find(place.dataset);
  return opened.ok() ? cache_.Find(place.hierarchy, *opened) : nullptr;
}

/// The hierarchy of a dataset that the client of the call may read. One call makes it, and others wait.
Result<HierarchyCache::Made> ZarrFront::Make(const zarr::Place& place, Call* call) {
  const std::shared_ptr<std::timed_mutex> maker = cache_.MakerOf(place.hierarchy);
  std::unique_lock lock(*maker, std::defer_lock);
  const auto gone = [] { return Status(StatusCode::kCancelled, "the client has gone"); };
  constexpr auto kLookUp = std::chrono::milliseconds(50);
  while (!lock.try_lock_for(kLookUp))
    if (call->Cancelled()) return gone();
  // Before its steps are read: what comes later is noticed next time.
  QUARRY_ASSIGN_OR_RETURN(const auto opened, service_->catalog().Find(place.dataset));
  if (auto kept = cache_.Find(place.hierarchy, opened)) return kept;
  auto room = std::make_unique<HierarchyCache::Room>(&cache_);
  QUARRY_ASSIGN_OR_RETURN(zarr::Contents contents,
                          zarr::Contents::Create(opened->dataset->description(), place.view));
  QUARRY_RETURN_IF_ERROR(room->Grow(contents.bytes()));
  Catalogue::Hold hold;
  for (const std::uint64_t number : opened->dataset->steps()) {
    if (call->Cancelled()) return gone();
    QUARRY_ASSIGN_OR_RETURN(const StepSummary step, opened->dataset->Summary(number, &hold));
    contents.Add(format::ToProto(step));
    QUARRY_RETURN_IF_ERROR(room->Grow(contents.bytes()));
  }
  auto made = std::make_shared<const zarr::Hierarchy>(std::move(contents));
  cache_.Keep(place.hierarchy, opened, made, std::move(room));
  return HierarchyCache::Made(std::move(made));
}

/// Whether the token is for a dataset of this name. A call decides whether it is for this one.
bool ZarrFront::MayKnow(const std::string& dataset, const HttpPeer& peer) const {
  const auto& tokens = service_->operations()->tokens;
  if (!tokens) return true;
  const auto access = tokens->Authenticate(peer.Header("authorization"));
  if (!access.ok()) return false;
  const std::vector<std::string> names = DatasetCatalog::PossibleNames(dataset);
  return std::ranges::any_of(names, [&](const std::string& name) { return (*access)->Allows(name); });
}

}  // namespace quarry::server::http
