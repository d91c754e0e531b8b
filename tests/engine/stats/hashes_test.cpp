#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <string>

#include "tensor/sample_tensors.h"

namespace sonde {
namespace {

using sample::Mix;
using sample::Tensor;

Tensor bytes(const std::string& text) {
  return sample::of(DType::uint8, std::vector<std::uint8_t>(text.begin(), text.end()));
}

// The hash of one buffer, straight from the library.
std::string hex_of(const EVP_MD* algorithm, const void* data, std::size_t size) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(data, size, digest, &length, algorithm, nullptr);
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", digest[i]);
    text += pair;
  }
  return text;
}

TEST(Hashes, HaveTheirPublishedValues) {
  EXPECT_EQ(md5_hex(bytes("").view()), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_hex(bytes("abc").view()), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5_hex(bytes("message digest").view()), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(sha1_hex(bytes("").view()), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1_hex(bytes("abc").view()), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST(Hashes, OfAViewEqualThoseOfItsCopy) {
  std::mt19937_64 random(1);
  Tensor tensor = sample::contiguous(DType::float32, {150, 310}, Mix::bits, random);
  tensor.shape = {310, 150};
  tensor.strides = {1, 310};
  const Tensor copy = sample::naive_copy(tensor.view());
  EXPECT_EQ(md5_hex(tensor.view()), hex_of(EVP_md5(), copy.memory.data(), copy.memory.size()));
  EXPECT_EQ(sha1_hex(tensor.view()), sha1_hex(copy.view()));
  EXPECT_NE(md5_hex(tensor.view()), hex_of(EVP_md5(), tensor.memory.data(), tensor.memory.size()));
}

TEST(Hashes, OfANegativeViewAreOfTheNegatedElements) {
  const Tensor tensor = sample::floats({1, -2, 3});
  TensorView view = tensor.view();
  view.negative = true;
  EXPECT_EQ(md5_hex(view), md5_hex(sample::floats({-1, 2, -3}).view()));
}

TEST(Hashes, AreMadeWhereOpenSslRefusesThem) {
  std::mt19937_64 random(4);
  const Tensor small = sample::contiguous(DType::float32, {1000}, Mix::bits, random);
  Tensor large = sample::contiguous(DType::float32, {150, 310}, Mix::bits, random);
  large.shape = {310, 150};
  large.strides = {1, 310};
  const std::string md5 = md5_hex(large.view()), sha1 = sha1_hex(large.view()), short_sha1 = sha1_hex(small.view());
  ASSERT_EQ(EVP_set_default_properties(nullptr, "fips=yes"), 1);
  const bool refuses = hex_of(EVP_md5(), "", 0) != "d41d8cd98f00b204e9800998ecf8427e";
  const std::string md5_then = md5_hex(large.view()), sha1_then = sha1_hex(large.view());
  const std::string short_then = sha1_hex(small.view());
  ASSERT_EQ(EVP_set_default_properties(nullptr, ""), 1);
  EXPECT_TRUE(refuses);
  EXPECT_EQ(md5_then, md5);
  EXPECT_EQ(sha1_then, sha1);
  EXPECT_EQ(short_then, short_sha1);
}

TEST(Sha1, IsOfTheBytesUpToTwentyThousandFourHundredEighty) {
  std::mt19937_64 random(2);
  const Tensor tensor = sample::contiguous(DType::float64, {20480}, Mix::bits, random);
  EXPECT_EQ(sha1_hex(tensor.view()), hex_of(EVP_sha1(), tensor.memory.data(), tensor.memory.size()));
}

TEST(Sha1, IsOfTheHexTextsOfSlicesAbove) {
  std::mt19937_64 random(3);
  for (const std::size_t count : {20481U, 40960U, 50000U, 122880U, 122881U, 3000000U}) {
    const Tensor tensor = sample::contiguous(DType::int16, {static_cast<std::int64_t>(count)}, Mix::bits, random);
    std::string texts;
    for (std::size_t at = 0; at < count; at += 20480) {
      texts += hex_of(EVP_sha1(), tensor.memory.data() + 2 * at, 2 * std::min<std::size_t>(20480, count - at));
    }
    EXPECT_EQ(sha1_hex(tensor.view()), hex_of(EVP_sha1(), texts.data(), texts.size()));
  }
}

}  // namespace
}  // namespace sonde
