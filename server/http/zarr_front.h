#pragma once

#include <memory>
#include <optional>
#include <string>

#include "quarry/zarr/hierarchy.h"
#include "quarry/zarr/keys.h"
#include "server/http/answer.h"
#include "server/http/hierarchy_cache.h"
#include "server/http/http_call.h"
#include "server/service.h"

namespace quarry::server::http {

/// Datasets as Zarr hierarchies, for readers that know nothing of Quarry. Each answer is a call of the
/// service: samples are one of Read, everything else is one of its own, "Zarr" in log and metrics. So tokens,
/// limits, log and metrics hold as for every call. Thread-safe.
class ZarrFront {
 public:
  /// @param service    outlives the front
  /// @param is_public  whether everybody may read; never with tokens
  ZarrFront(Service* service, bool is_public);

  /// Answers a GET or HEAD on this thread.
  /// @param path  behind /zarr/
  void Run(const std::string& path, Exchange* exchange);

 private:
  /// The part of a value that a request wants.
  struct Wanted {
    std::optional<ByteRange> part;  ///< nothing: all of it
    bool known = false;             ///< the client has it
    bool outside = false;           ///< the part is
    bool bytes = false;             ///< its bytes
  };
  struct Outcome {
    bool here = false;             ///< the key is in the hierarchy, with any status
    std::optional<Answer> answer;  ///< nothing: it was sent
  };

  static Wanted WantedOf(const Request& request, const std::optional<zarr::Entry>& entry);
  static bool WantsField(const zarr::Hierarchy& hierarchy, const std::string& key, const HttpPeer& peer);
  Outcome AnswerPlace(const zarr::Place& place, HttpPeer* peer);
  Answer Begin(const zarr::Entry& entry, const Wanted& wanted) const;
  Answer AnswerKnown(const zarr::Entry& entry, const Wanted& wanted) const;
  std::optional<Answer> SendField(const zarr::Place& place, const zarr::Entry& entry, const Wanted& wanted,
                                  const zarr::Hierarchy& hierarchy, HttpPeer* peer);
  Status SendValue(const zarr::Hierarchy& hierarchy, const zarr::Entry& entry, Call* call, HttpPeer* peer,
                   MessageStream* stream) const;
  Status SendCoordinates(const zarr::Hierarchy& hierarchy, const zarr::Entry& entry, const Wanted& wanted,
                         Call* call, HttpPeer* peer, MessageStream* stream) const;

  HierarchyCache::Made FindKept(const zarr::Place& place, const HttpPeer& peer);
  Result<HierarchyCache::Made> Make(const zarr::Place& place, Call* call);
  bool MayKnow(const std::string& dataset, const HttpPeer& peer) const;

  Service* const service_;
  const bool is_public_;
  HierarchyCache cache_;
};

/// The status of an answer for an error of a call. Transient errors are 503 or 504, others 422: readers of
/// Zarr repeat requests that were answered with others, and take a 404 for a chunk of fill values.
int HttpStatusOf(StatusCode code, bool of_chunk);

}  // namespace quarry::server::http
