#include "writer/pipeline/mail.h"

#include <algorithm>
#include <iterator>

#include "quarry/base/checksum.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/mpi_status.h"
#include "writer/redistribute/quiet_wait.h"

namespace quarry::writer {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
/// Tags wrap within what MPI guarantees (32767).
constexpr std::uint64_t kTags = 32000;

std::size_t HeadSize(ByteSpan message) { return GetLittleEndian<std::uint64_t>(message.data()); }

/// Takes the letters to this rank out of `letters`. @returns how many of the other ranks are for this one
Result<int> CountLetters(MPI_Comm comm, std::vector<Letter>* letters, std::vector<Letter>* here) {
  std::vector<int> to_rank;
  QUARRY_RETURN_IF_ERROR(OnEveryRank(comm, [&] {
    const int rank = Rank(comm);
    const auto own = std::stable_partition(letters->begin(), letters->end(),
                                           [&](const Letter& letter) { return letter.peer != rank; });
    here->assign(std::make_move_iterator(own), std::make_move_iterator(letters->end()));
    letters->erase(own, letters->end());
    to_rank.assign(static_cast<std::size_t>(Size(comm)), 0);
    for (const Letter& letter : *letters) ++to_rank[static_cast<std::size_t>(letter.peer)];
    return Status::Ok();
  }));
  int count = 0;
  const Status counted =
      redistribute::MpiStatus(MPI_Reduce_scatter_block(to_rank.data(), &count, 1, MPI_INT, MPI_SUM, comm),
                              "MPI_Reduce_scatter_block");
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, counted));
  return count;
}

}  // namespace

Message Message::WithHead(ByteSpan head) {
  Message message;
  message.bytes_.reserve(head.size() + 3 * kWord);
  PutLittleEndian(&message.bytes_, std::uint64_t{head.size()});
  message.bytes_.resize(kWord + head.size());
  std::ranges::copy(head, message.bytes_.begin() + kWord);
  PutLittleEndian(&message.bytes_, Checksum(message.bytes_));
  return message;
}

bool Message::IntactHead() const {
  if (bytes_.size() < 2 * kWord || HeadSize(bytes_) > bytes_.size() - 2 * kWord) return false;
  const std::size_t end = kWord + HeadSize(bytes_);
  return GetLittleEndian<std::uint64_t>(bytes_.data() + end) == Checksum(ByteSpan(bytes_).first(end));
}

ByteSpan Message::head() const { return ByteSpan(bytes_).subspan(kWord, HeadSize(bytes_)); }
ByteSpan Message::body() const { return ByteSpan(bytes_).subspan(2 * kWord + HeadSize(bytes_)); }

Bytes* Message::Body(std::size_t more) {
  bytes_.reserve(bytes_.size() + more + kWord);
  return &bytes_;
}

void Message::Close() { bytes_.resize((bytes_.size() + kWord - 1) / kWord * kWord); }

Mail::Mail(MPI_Comm comm, std::uint64_t number) : comm_(comm), tag_(1 + static_cast<int>(number % kTags)) {}

void Mail::Note(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  requests_.back() = MPI_REQUEST_NULL;
  if (status_.ok()) status_ = redistribute::MpiStatus(code, call);
}

void Mail::Send(Message message, int target) {
  message.Close();
  sent_.push_back(std::move(message));
  const Bytes& bytes = sent_.back().bytes();
  MPI_Request* request = &requests_.emplace_back(MPI_REQUEST_NULL);
  Note(MPI_Isend(bytes.data(), static_cast<int>(bytes.size() / kWord), MPI_UINT64_T, target, tag_, comm_,
                 request),
       "MPI_Isend");
}

void Mail::Receive(int source) {
  MPI_Status found;
  int words = 0;
  requests_.emplace_back(MPI_REQUEST_NULL);
  sources_.push_back(source);
  received_.emplace_back();
  redistribute::WaitForMessage(source, tag_, comm_);
  int code = MPI_Probe(source, tag_, comm_, &found);
  if (code != MPI_SUCCESS) return Note(code, "MPI_Probe");
  sources_.back() = found.MPI_SOURCE;
  code = MPI_Get_count(&found, MPI_UINT64_T, &words);
  if (code != MPI_SUCCESS) return Note(code, "MPI_Get_count");
  received_.back().resize(static_cast<std::size_t>(words) * kWord);
  Note(MPI_Irecv(received_.back().data(), words, MPI_UINT64_T, found.MPI_SOURCE, tag_, comm_,
                 &requests_.back()),
       "MPI_Irecv");
}

Result<std::vector<Letter>> Mail::Wait() {
  const Status waited = redistribute::WaitForAll(requests_);
  requests_.clear();
  sent_.clear();
  QUARRY_RETURN_IF_ERROR(status_);
  QUARRY_RETURN_IF_ERROR(waited);
  std::vector<Letter> letters;
  for (std::size_t i = 0; i < received_.size(); ++i) {
    letters.push_back({sources_[i], Message(std::move(received_[i]))});
    if (!letters.back().message.IntactHead())
      return InternalError("a message has not arrived from rank {} as it was sent; check the network",
                           sources_[i]);
  }
  received_.clear();
  sources_.clear();
  return letters;
}

Result<std::vector<Letter>> ExchangeLetters(MPI_Comm comm, std::uint64_t number,
                                            std::vector<Letter> letters) {
  std::vector<Letter> here;
  QUARRY_ASSIGN_OR_RETURN(const int count, CountLetters(comm, &letters, &here));
  Mail mail(comm, number);
  Result<std::vector<Letter>> arrived = Guarded([&] {
    for (Letter& letter : letters) mail.Send(std::move(letter.message), letter.peer);
    for (int i = 0; i < count; ++i) mail.Receive(MPI_ANY_SOURCE);
    Result<std::vector<Letter>> received = mail.Wait();
    if (!received.ok()) return received;
    std::ranges::move(here, std::back_inserter(*received));
    std::ranges::stable_sort(*received, {}, &Letter::peer);
    return received;
  });
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, arrived.status()));
  return arrived;
}

}  // namespace quarry::writer
