// Every kernel that runs here, compared with OpenSSL.
#include "ground/stats/multi_hash.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <string>

#include "ground/stats/kernels.h"

namespace sonde {
namespace {

constexpr HashAlgorithm kAlgorithms[] = {HashAlgorithm::md5, HashAlgorithm::sha1};

std::string hex_by_openssl(HashAlgorithm algorithm, const std::byte* data, std::size_t bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(data, bytes, digest, &length, algorithm == HashAlgorithm::md5 ? EVP_md5() : EVP_sha1(), nullptr);
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", digest[i]);
    text += pair;
  }
  return text;
}

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

// Messages of these lengths, each elsewhere in the same bytes, at any address.
std::vector<HashMessage> messages_of(const std::vector<std::size_t>& lengths, const std::vector<std::byte>& bytes) {
  std::vector<HashMessage> messages(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    messages[i].data = bytes.data() + (i * 37) % (bytes.size() - lengths[i] + 1);
    messages[i].bytes = lengths[i];
  }
  return messages;
}

// `most_blocks` of each call of run().
void expect_texts_of_openssl(const std::vector<std::size_t>& lengths, std::size_t most_blocks = ~std::size_t{0}) {
  const std::size_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  const std::vector<std::byte> bytes = random_bytes(longest + 1000, longest);
  for (const HashKernel& kernel : hash_kernels()) {
    for (const HashAlgorithm algorithm : kAlgorithms) {
      std::vector<HashMessage> messages = messages_of(lengths, bytes);
      MultiHash hash(algorithm, kernel);
      for (HashMessage& message : messages) hash.add(message);
      EXPECT_EQ(hash.messages(), lengths.size());
      while (!hash.is_idle()) hash.run(most_blocks);
      EXPECT_EQ(hash.messages(), 0U);
      for (const HashMessage& message : messages) {
        ASSERT_EQ(hex_of(message), hex_by_openssl(algorithm, message.data, message.bytes))
            << kernel.name << " " << (algorithm == HashAlgorithm::md5 ? "md5" : "sha1") << " " << message.bytes
            << " bytes, " << lengths.size() << " messages";
      }
    }
  }
}

TEST(MultiHash, HasTheTextsOfOpenSslForEveryShortLength) {
  std::vector<std::size_t> lengths(201);
  std::iota(lengths.begin(), lengths.end(), 0);
  expect_texts_of_openssl(lengths);
  for (const std::size_t length : lengths) expect_texts_of_openssl({length});
}

TEST(MultiHash, HasThemForEveryNumberOfMessages) {
  for (std::size_t count = 0; count <= 2 * kMostHashLanes + 1; ++count) {
    expect_texts_of_openssl(std::vector<std::size_t>(count, 4096));
    expect_texts_of_openssl(std::vector<std::size_t>(count, 55));
  }
}

TEST(MultiHash, HasThemForLengthsAroundAPage) {
  expect_texts_of_openssl({4095, 4096, 4097});
  expect_texts_of_openssl({4097, 4096, 4095, 0, 1, 4096, 63, 64, 65, 119, 120, 4095, 128, 4097, 4096, 3, 127, 4032});
}

TEST(MultiHash, HasThemForMixesOfUnequalLengths) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::size_t> lengths(random() % 150);
    for (std::size_t& length : lengths) length = random() % (std::size_t{1} << random() % 17);
    expect_texts_of_openssl(lengths);
    expect_texts_of_openssl(lengths, 1 + random() % 40);
  }
}

TEST(MultiHash, TakesMessagesBetweenTwoCallsOfRun) {
  std::mt19937_64 random(6);
  const std::vector<std::byte> bytes = random_bytes(1 << 20, 7);
  for (const HashKernel& kernel : hash_kernels()) {
    for (const HashAlgorithm algorithm : kAlgorithms) {
      std::deque<HashMessage> messages;
      MultiHash hash(algorithm, kernel);
      for (int call = 0; call < 200; ++call) {
        for (auto more = random() % 8; more > 0; --more) {
          HashMessage& message = messages.emplace_back();
          message.bytes = random() % (call == 3 ? bytes.size() : 9000);
          message.data = bytes.data() + random() % (bytes.size() - message.bytes);
          hash.add(message);
        }
        hash.run(random() % 64);
      }
      hash.run();
      EXPECT_TRUE(hash.is_idle());
      for (const HashMessage& message : messages) {
        ASSERT_EQ(hex_of(message), hex_by_openssl(algorithm, message.data, message.bytes)) << kernel.name;
      }
    }
  }
}

TEST(MultiHash, HasNoTextOfAMessageThatIsNotDone) {
  const std::vector<std::byte> bytes(1000);
  HashMessage message;
  message.data = bytes.data();
  message.bytes = bytes.size();
  MultiHash hash(HashAlgorithm::sha1);
  hash.add(message);
  hash.run(3);
  EXPECT_FALSE(message.done);
  EXPECT_EQ(hex_of(message), "");
  EXPECT_EQ(hash.messages(), 1U);
}

TEST(MultiHash, HasAKernelForEachOfTheStatistics) {
  ASSERT_EQ(hash_kernels().size(), kernels().size());
  for (std::size_t i = 0; i < kernels().size(); ++i) EXPECT_EQ(hash_kernels()[i].name, kernels()[i].name);
  EXPECT_EQ(chosen_hash_kernel().name, chosen_kernel().name);
}

}  // namespace
}  // namespace sonde
