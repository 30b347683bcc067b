// Questions of every kind, from many clients at once, in both encodings, with little memory: each answer
// equals that of a single thread reading the directory, and costs what its plan says. QUARRY_TEST_FULL=1 asks
// 10,000 questions.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>
#include <variant>

#include "quarry/base/checksum.h"
#include "quarry/client.h"
#include "quarry/client_grpc.h"
#include "quarry/query/statistics.h"
#include "server/grpc/listener.h"
#include "tests/testing/make_dataset.h"

namespace quarry::server {
namespace {

constexpr int kClients = 16;

using Request = std::variant<query::SeriesRequest, query::StatisticsRequest, query::PointsRequest>;

/// Everything in an answer, as one number for each level; and its stated cost.
struct Answer {
  StatusCode code = StatusCode::kOk;
  std::vector<std::uint64_t> parts;
  query::Cost cost;

  friend bool operator==(const Answer&, const Answer&) = default;
};

struct Question {
  std::size_t dataset = 0;
  Request request;
  Answer expected;
};

std::uint64_t ChecksumOf(const auto& values) { return Checksum(std::as_bytes(std::span(values))); }

void PrintTo(const Answer& answer, std::ostream* out) {
  *out << "code " << static_cast<int>(answer.code) << ", " << answer.cost.patches << " patches, "
       << answer.cost.bytes << " bytes, parts";
  for (const std::uint64_t part : answer.parts) *out << ' ' << part;
}

/// Reading a directory offers no choice of encoding.
constexpr client::Encoding kFromDirectory = client::Encoding::kAuto;

Answer Ask(const client::Dataset& dataset, const query::SeriesRequest& request, client::Encoding encoding) {
  Answer answer;
  const auto plans = dataset.PlanSeries(request);
  answer.code = plans.status().code();
  if (!plans.ok()) return answer;
  std::size_t answers = 0;
  const Status status =
      dataset.ReadSeries(request, [&](client::LevelSamples* level, const client::ReadCost& cost) {
        answer.parts.insert(answer.parts.end(), {static_cast<std::uint64_t>(level->level), level->step,
                                                 ChecksumOf(level->extent.shape()), level->left_out.size(),
                                                 Checksum(level->data)});
        if (!level->last()) return Status::Ok();
        const query::AnswerHeader& plan = plans->at(answers++);
        answer.cost += plan.cost;
        EXPECT_EQ(cost.planned, plan.cost);
        if (encoding == kFromDirectory) {
          EXPECT_LE(cost.bytes_received, plan.cost.bytes) << "less where patches are in memory";
        } else {
          EXPECT_EQ(cost.bytes_received,
                    encoding == client::Encoding::kPatches ? plan.cost.bytes : plan.cost.reply_bytes);
        }
        return Status::Ok();
      });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(answers, plans->size());
  return answer;
}

Answer Ask(const client::Dataset& dataset, const query::StatisticsRequest& request, client::Encoding) {
  Answer answer;
  const auto found = dataset.Statistics(request);
  answer.code = found.status().code();
  if (!found.ok()) return answer;
  answer.cost = found->header.cost;
  const query::Statistics& statistics = found->statistics;
  // A checksum of the bits, because NaN (no valid sample) does not equal itself.
  const std::array<double, 12> numbers = {
      statistics.min.value, statistics.min.low,      statistics.min.high,   statistics.max.value,
      statistics.max.low,   statistics.max.high,     statistics.mean.value, statistics.mean.low,
      statistics.mean.high, statistics.stddev.value, statistics.stddev.low, statistics.stddev.high};
  answer.parts = {statistics.valid, statistics.missing, ChecksumOf(numbers)};
  return answer;
}

Answer Ask(const client::Dataset& dataset, const query::PointsRequest& request, client::Encoding) {
  Answer answer;
  const auto found = dataset.ReadPoints(request);
  answer.code = found.status().code();
  if (!found.ok()) return answer;
  answer.cost = found->cost;
  answer.parts = {found->values.size(), ChecksumOf(found->values)};
  return answer;
}

class Questioner {
 public:
  explicit Questioner(unsigned seed) : random_(seed) {}

  Request Next(const DatasetDescription& dataset) {
    const Index3& dims = dataset.grids[0].dims;
    const int kind = Below(12);
    if (kind == 9) return Points(dims);
    query::ReadRequest read{.field = "pressure", .box = testing::RandomBox(dims, &random_)};
    if (kind == 1) read.target = query::WithinError{Below(100) * 1e-3};
    if (kind == 2) read.target = query::WithinBytes{std::uint64_t{1} << Below(18)};
    if (kind == 3) read.target = query::AtStride{{1 + Below(4), 1 + Below(4), 1 + Below(4)}};
    if (kind == 4 || kind == 5) read.target = query::AtLevel{Below(dataset.grids[0].levels)};
    if (kind == 5) read.first_level = dataset.grids[0].levels - 1;
    if (kind == 6) read.box.reset();
    if (kind == 7) FlattenToAPlane(&*read.box);
    if (Below(3) == 0) read.focus = {Below(40) * 1.0, Below(40) * 1.0, -3.5};
    if (kind == 8) return query::StatisticsRequest{read, {0, 50, 99}, 5, std::pair(-1.0, 3.0)};
    if (kind == 10) read.values = query::Bounds{Below(30) * 0.1 - 1, Below(30) * 0.1};
    if (kind == 11) return query::SeriesRequest{read, {}, query::StepRange{0, {}, 1U + Below(2)}};
    return query::SeriesRequest{read, {}, {}};
  }

  int Below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

 private:
  void FlattenToAPlane(Box* box) {
    const auto axis = static_cast<std::size_t>(Below(3));
    box->end[axis] = box->begin[axis] + 1;
  }
  query::PointsRequest Points(const Index3& dims) {
    query::PointsRequest request{"pressure", {}, {}, false};
    for (int i = 0; i <= Below(30); ++i) {
      query::Point point;
      for (std::size_t a = 0; a < 3; ++a)
        point[a] = static_cast<double>(Below(1001)) / 1000 * static_cast<double>(dims[a] - 1);
      request.points.push_back(point);
    }
    return request;
  }

  std::mt19937 random_;
};

TEST(ManyClients, GetTheAnswersOfOneThreadForTheCostOfThePlan) {
  const bool full = std::getenv("QUARRY_TEST_FULL") != nullptr;
  const int count = full ? 10'000 : 500;
  testing::TemporaryFolder folder;
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  testing::MakeDataset(folder.path() / "a.quarry", {.steps = {0, 1, 2}});
  testing::MakeDataset(
      folder.path() / "b.quarry",
      {.dims = {50, 1, 1}, .patch = {16, 1, 1}, .levels = 5, .order = format::PayloadOrder::kLevel});
  testing::MakeDataset(folder.path() / "c.quarry", {.coder = CoderId::kInterpolate, .missing = true});
  testing::MakeDataset(folder.path() / "d.quarry",
                       {.dims = {320, 200, 100}, .patch = {32, 32, 32}, .coder = CoderId::kInterpolate});

  std::vector<Question> questions;
  {
    std::vector<std::unique_ptr<client::Dataset>> datasets;
    datasets.reserve(names.size());
    for (const std::string& name : names)
      datasets.push_back(*client::Dataset::Open(folder.path() / (name + ".quarry"), {.threads = 1}));
    Questioner questioner(17);
    for (int i = 0; i < count; ++i) {
      Question question;
      question.dataset = static_cast<std::size_t>(questioner.Below(4));
      const client::Dataset& dataset = *datasets[question.dataset];
      question.request = questioner.Next(dataset.description());
      question.expected = std::visit(
          [&](const auto& request) { return Ask(dataset, request, kFromDirectory); }, question.request);
      questions.push_back(std::move(question));
    }
  }

  // Room for one statistics question and others beside it, but not for the samples of d.
  constexpr std::uint64_t kMemory = 3 * query::StatisticsAccumulator::kMemory;
  static_assert(kMemory < std::uint64_t{320 * 200 * 100 * sizeof(float)});
  client::EnableGrpc();
  Operations operations;
  Service service(DatasetCatalogOptions{folder.path(), {}, folder.path()}, EngineOptions{kMemory, 2},
                  &operations);
  ListenOptions options;
  options.address = "127.0.0.1:0";
  auto listener = *Listener::Start(options, &service);
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> clients;
  clients.reserve(kClients);
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back(
        [&, encoding = c % 2 == 0 ? client::Encoding::kSamples : client::Encoding::kPatches] {
          std::vector<std::unique_ptr<client::Dataset>> datasets;
          datasets.reserve(names.size());
          for (const std::string& name : names) {
            datasets.push_back(*client::Dataset::Open(fmt::format("grpc://{}/{}", listener->address(), name),
                                                      {.threads = 1, .encoding = encoding}));
          }
          for (std::size_t i = next++; i < questions.size(); i = next++) {
            const Question& question = questions[i];
            const Answer answer = std::visit(
                [&](const auto& request) { return Ask(*datasets[question.dataset], request, encoding); },
                question.request);
            EXPECT_EQ(answer, question.expected) << "question " << i;
          }
        });
  }
  for (std::thread& client : clients) client.join();
  listener.reset();
  // A task returns its memory after its patches have been sent.
  while (service.store().state().reserved != 0) std::this_thread::yield();
  const PatchStore::State state = service.store().state();
  EXPECT_EQ(state.pinned + state.waiting, 0u);
  EXPECT_GT(state.evictions, 0u) << "or the memory was not little";
}

}  // namespace
}  // namespace quarry::server
