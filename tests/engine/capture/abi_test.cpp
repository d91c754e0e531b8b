// Structs of hosts whose header is older or newer than the engine's.
#include "record/capture/abi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "record/capture/api.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The first `bytes` of a struct at the end of a page; the bytes after it cannot be read.
template <typename T>
class AtTheEdge {
 public:
  AtTheEdge(const T& whole, std::size_t bytes) {
    pages_ = static_cast<std::byte*>(
        ::mmap(nullptr, kBytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(pages_ + kBytes, kPage, PROT_NONE);
    std::memcpy(pages_ + kBytes - bytes, &whole, bytes);
    given_ = reinterpret_cast<T*>(pages_ + kBytes - bytes);
    given_->size = static_cast<std::uint32_t>(bytes);
  }
  ~AtTheEdge() { ::munmap(pages_, kBytes + kPage); }
  AtTheEdge(const AtTheEdge&) = delete;
  AtTheEdge& operator=(const AtTheEdge&) = delete;

  const T& operator*() const { return *given_; }
  const T* get() const { return given_; }

 private:
  static constexpr std::size_t kPage = 64 << 10;  // a multiple of every machine's
  static constexpr std::size_t kBytes = (sizeof(T) / kPage + 1) * kPage;
  std::byte* pages_ = nullptr;
  T* given_ = nullptr;
};

sonde_tensor filled() {
  sonde_tensor t{};
  t.size = sizeof t;
  t.dtype = SONDE_DTYPE_FLOAT32;
  t.ndim = 2;
  t.flags = SONDE_TENSOR_FOREIGN;
  t.object = 7;
  return t;
}

TEST(Abi, FieldsThatAnOlderHostDoesNotHaveAreZero) {
  const AtTheEdge older(filled(), offsetof(sonde_tensor, flags));
  ASSERT_TRUE(is_complete(*older));
  const sonde_tensor all = completed(*older);
  EXPECT_EQ(all.dtype, static_cast<std::uint32_t>(SONDE_DTYPE_FLOAT32));
  EXPECT_EQ(all.ndim, 2U);
  EXPECT_EQ(all.flags, 0U);
  EXPECT_EQ(all.object, 0U);
}

TEST(Abi, OfANewerHostTheFieldsThatAreKnownAreTaken) {
  struct Newer {
    sonde_tensor known;
    std::uint64_t later[4];
  };
  Newer newer{filled(), {1, 2, 3, 4}};
  newer.known.size = sizeof newer;
  ASSERT_TRUE(is_complete(newer.known));
  EXPECT_EQ(completed(newer.known).object, 7U);
}

TEST(Abi, AStructWithoutItsFirstFieldsIsRefused) {
  EXPECT_FALSE(is_complete(*AtTheEdge(filled(), offsetof(sonde_tensor, ndim))));
  EXPECT_FALSE(is_complete(*AtTheEdge(sonde_named_op{}, offsetof(sonde_named_op, op_type))));
  EXPECT_EQ(too_short(*AtTheEdge(filled(), 16)),
            std::string("the host's struct sonde_tensor has 16 bytes, and at least 40 are needed: its adapter was not "
                        "built for libsonde.so ") +
                SONDE_VERSION + "; install both from one version of Sonde");
}

TEST(Abi, StridesThatTheHostLeavesOutAreThoseOfCOrder) {
  const std::array<std::int64_t, 3> shape = {2, 3, 4};
  sonde_tensor given = filled();
  given.shape = shape.data();
  given.ndim = 3;
  const HostTensor tensor = tensor_of(given);
  EXPECT_THAT(tensor.view.strides, ElementsAre(12, 4, 1));
  EXPECT_TRUE(tensor.view.is_c_contiguous());
}

TEST(Abi, NumbersThatAreNoneOfTheHeadersAreUnknownThings) {
  sonde_tensor tensor{};
  tensor.dtype = 256 + SONDE_DTYPE_FLOAT32;
  tensor.device = 256;
  EXPECT_EQ(tensor_of(tensor).view.dtype, DType::undefined);
  EXPECT_STREQ(tensor_of(tensor).skip, "on a device that this build cannot read");
  sonde_site site{};
  site.phase = 77;
  site.trace_count = 3;  // of a missing trace
  EXPECT_EQ(site_of(site).phase, Phase::outside);
  EXPECT_TRUE(site_of(site).trace.empty());
  sonde_attribute attribute{};
  attribute.kind = 99;
  EXPECT_EQ(attribute_of(attribute).kind, AttributeKind::none);
}

TEST(Abi, NamesEveryElementTypeOfTheEngine) {
  EXPECT_EQ(all_dtypes().back().dtype, static_cast<DType>(SONDE_DTYPE_QINT32))
      << "sonde.h has a number for each: append SONDE_DTYPE_*, and its static_assert in capture/abi.cpp";
}

class ShortStructs : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(::testing::TempDir()) / ("sonde_" + std::to_string(::getpid()) + "_" + test->name());
    fs::create_directories(directory_);
    const fs::path config = directory_ / "data_dump.json";
    std::ofstream(config) << R"({"common_dump_settings":{"dump_mode":0,"path":")" << (directory_ / "dump").string()
                          << R"(","net_name":"Net","iteration":"all","saved_data":"tensor","input_output":0,)"
                          << R"("kernels":[],"support_device":[0]},"e2e_dump_settings":{"enable":true}})";
    ASSERT_EQ(api().start(config.c_str(), nullptr, 0), 0);
  }
  void TearDown() override {
    api().stop(nullptr, 0);
    fs::remove_all(directory_);
  }
  static const struct sonde_api& api() { return *api_table(); }

  fs::path directory_;
};

TEST_F(ShortStructs, EndTheRecordingWithOneMessageToTheHost) {
  const AtTheEdge info(sonde_run_info{}, offsetof(sonde_run_info, device));
  EXPECT_EQ(api().active(), 1);
  api().set_run_info(info.get());
  EXPECT_EQ(api().active(), 0);
  std::array<char, 1024> text{};
  ASSERT_EQ(api().take_failure(text.data(), text.size()), 1);
  EXPECT_THAT(text.data(), HasSubstr("the host's struct sonde_run_info has 8 bytes, and at least 12 are needed"));
  EXPECT_EQ(api().take_failure(text.data(), text.size()), 0);
}

TEST_F(ShortStructs, OfHostSettingsNothingIsWrittenBehindTheirEnd) {
  sonde_host_settings whole{};
  const AtTheEdge cut(whole, offsetof(sonde_host_settings, inputs_after));
  std::array<char, 1024> text{};
  EXPECT_EQ(api().host_settings(const_cast<sonde_host_settings*>(cut.get()), text.data(), text.size()), -1);
  EXPECT_THAT(text.data(), HasSubstr("struct sonde_host_settings"));
  struct Newer {
    sonde_host_settings known;
    std::uint64_t later = 5;
  } newer;
  newer.known.size = sizeof newer;
  EXPECT_EQ(api().host_settings(&newer.known, text.data(), text.size()), 0) << text.data();
  EXPECT_EQ(newer.known.size, sizeof newer) << "as the host set it";
  EXPECT_STREQ(newer.known.net_name, "Net");
  EXPECT_EQ(newer.later, 5U);
}

}  // namespace
}  // namespace sonde
