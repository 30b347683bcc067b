#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quarry/base/checked_math.h"
#include "quarry/base/status.h"
#include "quarry/quarry_redistribute.h"
#include "quarry/redistribute.h"

struct quarry_redistribution {
  std::size_t axes = 3;
  quarry::Index3 dims{1, 1, 1};
  std::size_t sample_bytes = 0;
  std::optional<quarry::redistribute::Redistribution> redistribution;
  std::vector<quarry::Box> owned;
  std::vector<quarry::Box> needed;
  std::string message;
};

namespace quarry::redistribute {
namespace {

static_assert(QUARRY_REDISTRIBUTE_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(QUARRY_REDISTRIBUTE_RESOURCE_EXHAUSTED == static_cast<int>(StatusCode::kResourceExhausted));
static_assert(QUARRY_REDISTRIBUTE_FAILED_PRECONDITION == static_cast<int>(StatusCode::kFailedPrecondition));
static_assert(QUARRY_REDISTRIBUTE_ABORTED == static_cast<int>(StatusCode::kAborted));
static_assert(QUARRY_REDISTRIBUTE_INTERNAL == static_cast<int>(StatusCode::kInternal));
static_assert(QUARRY_REDISTRIBUTE_POINT_TO_POINT == static_cast<int>(Method::kPointToPoint));
static_assert(QUARRY_REDISTRIBUTE_ALLTOALLW == static_cast<int>(Method::kAlltoallw));

/// Runs `call`, keeps its message, and lets no exception of the standard library reach C.
template <typename Call>
int Run(quarry_redistribution* r, Call call) {
  try {
    const Status status = call();
    r->message = status.message();
    return static_cast<int>(status.code());
  } catch (const std::bad_alloc&) {
    r->message.clear();
    return QUARRY_REDISTRIBUTE_RESOURCE_EXHAUSTED;
  } catch (const std::exception& error) {
    r->message = error.what();
    return QUARRY_REDISTRIBUTE_INTERNAL;
  }
}

Result<std::vector<Box>> BoxesOf(const quarry_redistribution& r, int count, const std::int64_t* sizes,
                                 const std::int64_t* offsets, const char* verb) {
  if (count < 0) return InvalidArgument("a rank {} {} boxes; the number cannot be negative", verb, count);
  if (count > 0 && (sizes == nullptr || offsets == nullptr))
    return InvalidArgument("a rank {} {} boxes but gives no array of their sizes or offsets", verb, count);
  std::vector<Box> boxes(static_cast<std::size_t>(count), Box{{0, 0, 0}, {1, 1, 1}});
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    for (std::size_t a = 0; a < r.axes; ++a) {
      const std::int64_t size = sizes[b * r.axes + a];
      boxes[b].begin[a] = offsets[b * r.axes + a];
      if (size < 0 || !CheckedAdd(boxes[b].begin[a], size, &boxes[b].end[a]))
        return InvalidArgument(
            "box {} that a rank {} has size {} at offset {} along {}; sizes must be 0 or more", b, verb, size,
            boxes[b].begin[a], kAxisNames[a]);
    }
  }
  return boxes;
}

template <typename View, typename Pointer>
std::vector<View> ViewsOf(const quarry_redistribution& r, const std::vector<Box>& boxes,
                          Pointer const* arrays, const std::int64_t* strides) {
  std::vector<View> views;
  // Without arrays there are no views; Exchange reports this on every rank.
  for (std::size_t b = 0; arrays != nullptr && b < boxes.size(); ++b) {
    views.push_back(View::Dense(arrays[b], boxes[b], r.sample_bytes));
    for (std::size_t a = 0; strides != nullptr && a < r.axes; ++a) views.back().stride[a] = *strides++;
  }
  return views;
}

Status NotCreated() {
  return FailedPrecondition("there is no description: quarry_redistribute_create failed before");
}

}  // namespace
}  // namespace quarry::redistribute

namespace qr = quarry::redistribute;

int quarry_redistribute_create(MPI_Comm comm, int axes, const int64_t* domain, size_t element_bytes,
                               quarry_redistribution** out) {
  return quarry_redistribute_create_with(comm, axes, domain, element_bytes, QUARRY_REDISTRIBUTE_AUTOMATIC,
                                         qr::kOnePerPart, out);
}

int quarry_redistribute_create_with(MPI_Comm comm, int axes, const int64_t* domain, size_t element_bytes,
                                    int method, int64_t batch, quarry_redistribution** out) {
  *out = new (std::nothrow) quarry_redistribution;
  if (*out == nullptr) return QUARRY_REDISTRIBUTE_RESOURCE_EXHAUSTED;
  quarry_redistribution* r = *out;
  return qr::Run(r, [&]() -> quarry::Status {
    // Describe refuses dims of 0, once all ranks have met there.
    const bool known = axes >= 1 && axes <= 3 && domain != nullptr;
    r->axes = known ? static_cast<std::size_t>(axes) : 3;
    for (std::size_t a = 0; a < r->axes; ++a) r->dims[a] = known ? domain[a] : 0;
    r->sample_bytes = element_bytes;
    qr::Description description{r->dims, element_bytes, static_cast<qr::Method>(method), batch};
    QUARRY_ASSIGN_OR_RETURN(r->redistribution, qr::Redistribution::Describe(comm, description));
    return quarry::Status::Ok();
  });
}

int quarry_redistribute_map(quarry_redistribution* r, int owned_count, const int64_t* owned_sizes,
                            const int64_t* owned_offsets, int needed_count, const int64_t* needed_sizes,
                            const int64_t* needed_offsets) {
  return qr::Run(r, [&]() -> quarry::Status {
    if (!r->redistribution) return qr::NotCreated();
    auto owned = qr::BoxesOf(*r, owned_count, owned_sizes, owned_offsets, "owns");
    auto needed = qr::BoxesOf(*r, needed_count, needed_sizes, needed_offsets, "needs");
    QUARRY_RETURN_IF_ERROR(r->redistribution->Agree(owned.ok() ? needed.status() : owned.status()));
    r->owned = *std::move(owned);
    r->needed = *std::move(needed);
    return r->redistribution->Map(r->owned, r->needed);
  });
}

int quarry_redistribute_exchange(quarry_redistribution* r, const void* const* owned, void* const* needed) {
  return quarry_redistribute_exchange_strided(r, owned, nullptr, needed, nullptr);
}

int quarry_redistribute_exchange_strided(quarry_redistribution* r, const void* const* owned,
                                         const int64_t* owned_strides, void* const* needed,
                                         const int64_t* needed_strides) {
  return qr::Run(r, [&]() -> quarry::Status {
    if (!r->redistribution) return qr::NotCreated();
    const auto sources = qr::ViewsOf<qr::BoxView>(*r, r->owned, owned, owned_strides);
    const auto targets = qr::ViewsOf<qr::MutableBoxView>(*r, r->needed, needed, needed_strides);
    return r->redistribution->Exchange(sources, targets);
  });
}

const char* quarry_redistribute_last_message(const quarry_redistribution* r) {
  return r == nullptr ? "out of memory" : r->message.c_str();
}

void quarry_redistribute_free(quarry_redistribution* r) { delete r; }
