#include "ir/ops/image_decoder.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/memory_limit.h"
#include "reference/single_op.h"
#include "test_random.h"

namespace camshaft::ops::image_decoder_test {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes from_text(std::string_view text) {
  return {text.begin(), text.end()};
}

Bytes from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<uint8_t>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  return out;
}

Tensor decode(const Bytes& file, PixelFormat format = PixelFormat::rgb) {
  return run_op(ImageDecoder{format}, {Tensor::of(DType::u8, {static_cast<int64_t>(file.size())}, file)})[0];
}

Tensor picture(Dims dims, const Bytes& samples) {
  return Tensor::of(DType::u8, std::move(dims), samples);
}

void expect_refused(const Bytes& file, const std::string& reason) {
  const std::string message = error_of([&] { decode(file); });
  EXPECT_NE(message.find(reason), std::string::npos) << message;
}

void append(Bytes& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

// A file with a header of 40 bytes; `extra` (palette, masks) lies between it and the pixels.
Bytes bmp(int32_t width, int32_t height, uint32_t bits, uint32_t compression, const Bytes& extra, const Bytes& pixels,
          uint32_t colors = 0) {
  Bytes file{'B', 'M'};
  append(file, 0, 8);
  append(file, static_cast<uint32_t>(54 + extra.size()), 4);
  append(file, 40, 4);
  append(file, static_cast<uint32_t>(width), 4);
  append(file, static_cast<uint32_t>(height), 4);
  append(file, 1, 2);
  append(file, bits, 2);
  append(file, compression, 4);
  for (int i = 0; i < 3; ++i) append(file, 0, 4);
  append(file, colors, 4);
  append(file, 0, 4);
  file.insert(file.end(), extra.begin(), extra.end());
  file.insert(file.end(), pixels.begin(), pixels.end());
  return file;
}

// Red, green / blue, (10, 20, 30).
const Bytes four_pixels{255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30};
constexpr std::string_view png_file =
    "89504e470d0a1a0a0000000d4948445200000002000000020802000000fdd49a730000001649444154789c63f8cfc0c0f09f"
    "818181e13f97881c001a58033a82e0ab530000000049454e44ae426082";
constexpr std::string_view webp_file =
    "5249464632000000574542505650384c260000002f014000001f20102078f0bf6a434890d0fdbf578100c188ff4bf31ff8e4"
    "a8e0060c11fd0f01";
constexpr std::string_view gray_jpeg_file =
    "ffd8ffe000104a46494600010100000100010000ffdb004300080606070605080707070909080a0c140d0c0b0b0c1912130f"
    "141d1a1f1e1d1a1c1c20242e2720222c231c1c2837292c30313434341f27393d38323c2e333432ffc0000b08000800080101"
    "1100ffc40014000100000000000000000000000000000005ffc40014100100000000000000000000000000000000ffda0008"
    "010100003f000dffd9";
constexpr std::string_view color_jpeg_file =
    "ffd8ffe000104a46494600010100000100010000ffdb004300080606070605080707070909080a0c140d0c0b0b0c1912130f"
    "141d1a1f1e1d1a1c1c20242e2720222c231c1c2837292c30313434341f27393d38323c2e333432ffdb0043010909090c0b0c"
    "180d0d1832211c21323232323232323232323232323232323232323232323232323232323232323232323232323232323232"
    "3232323232323232ffc00011080001000103011100021101031101ffc40014000100000000000000000000000000000003ff"
    "c40014100100000000000000000000000000000000ffc40014010100000000000000000000000000000006ffc40014110100"
    "000000000000000000000000000000ffda000c03010002110311003f0031a307ffd9";

const Bytes palette{0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 0};  // red, green, blue

TEST(ImageDecoder, TellsTheFormatsApart) {
  const Tensor expected = picture({2, 2, 3}, four_pixels);
  EXPECT_EQ(decode(from_hex(png_file)), expected);
  EXPECT_EQ(decode(from_hex(webp_file)), expected);
  EXPECT_EQ(decode(from_text("P3 2 2 255 255 0 0  0 255 0  0 0 255  10 20 30")), expected);
  EXPECT_EQ(decode(bmp(2, 2, 24, 0, {}, {255, 0, 0, 30, 20, 10, 9, 9, 0, 0, 255, 0, 255, 0})), expected);
  EXPECT_EQ(decode(from_hex(gray_jpeg_file)), picture({8, 8, 3}, Bytes(192, 100)));
  EXPECT_EQ(decode(from_hex(color_jpeg_file)), picture({1, 1, 3}, {200, 100, 50}));
}

TEST(ImageDecoder, PixelFormats) {
  const Bytes color = from_hex(png_file), gray = from_text("P2 2 1 255 7 200");
  EXPECT_EQ(decode(color, PixelFormat::bgr), picture({2, 2, 3}, {0, 0, 255, 0, 255, 0, 255, 0, 0, 30, 20, 10}));
  // 0.299 · 255 = 76.2, 0.587 · 255 = 149.7, 0.114 · 255 = 29.1; 2.99 + 11.74 + 3.42 = 18.15
  EXPECT_EQ(decode(color, PixelFormat::grayscale), picture({2, 2, 1}, {76, 150, 29, 18}));
  EXPECT_EQ(decode(gray), picture({1, 2, 3}, {7, 7, 7, 200, 200, 200}));
  EXPECT_EQ(decode(gray, PixelFormat::bgr), picture({1, 2, 3}, {7, 7, 7, 200, 200, 200}));
  EXPECT_EQ(decode(gray, PixelFormat::grayscale), picture({1, 2, 1}, {7, 200}));
}

TEST(ImageDecoder, PnmKinds) {
  const auto gray = [](std::string_view text) { return decode(from_text(text), PixelFormat::grayscale); };
  EXPECT_EQ(gray("P1 # bits\n3 2\n101\n0 1 0"), picture({2, 3, 1}, {0, 255, 0, 255, 0, 255}));
  EXPECT_EQ(gray("P4\n9 1\n\x80\x80"), picture({1, 9, 1}, {0, 255, 255, 255, 255, 255, 255, 255, 0}));
  EXPECT_EQ(gray("P5\n#a comment\n2 1 255\n\x01\xff"), picture({1, 2, 1}, {1, 255}));
  EXPECT_EQ(gray("P2 3 1 15 0 5 15"), picture({1, 3, 1}, {0, 85, 255}));
  EXPECT_EQ(gray("P5 2 1 65535\n\xff\xff\x80\x80"), picture({1, 2, 1}, {255, 128}));
  EXPECT_EQ(decode(from_text("P6 1 1 255\n\x01\x02\x03")), picture({1, 1, 3}, {1, 2, 3}));
}

TEST(ImageDecoder, BmpKinds) {
  EXPECT_EQ(decode(bmp(2, -1, 8, 0, palette, {2, 0, 0, 0}, 3)), picture({1, 2, 3}, {0, 0, 255, 255, 0, 0}));
  EXPECT_EQ(decode(bmp(3, 1, 4, 0, palette, {0x01, 0x20, 0, 0}, 3)),
            picture({1, 3, 3}, {255, 0, 0, 0, 255, 0, 0, 0, 255}));
  EXPECT_EQ(decode(bmp(2, 1, 1, 0, palette, {0x40, 0, 0, 0}, 2)), picture({1, 2, 3}, {255, 0, 0, 0, 255, 0}));
  EXPECT_EQ(decode(bmp(1, 1, 16, 0, {}, {0x00, 0x7C, 0, 0})), picture({1, 1, 3}, {255, 0, 0}));
  const Bytes masks{0x00, 0xF8, 0, 0, 0xE0, 0x07, 0, 0, 0x1F, 0x00, 0, 0};
  EXPECT_EQ(decode(bmp(1, 1, 16, 3, masks, {0xE0, 0x07, 0, 0})), picture({1, 1, 3}, {0, 255, 0}));
  EXPECT_EQ(decode(bmp(1, 1, 32, 0, {}, {3, 2, 1, 99})), picture({1, 1, 3}, {1, 2, 3}));
  // Rows from the bottom: a run of two greens; a red and a blue as they are.
  EXPECT_EQ(decode(bmp(2, 2, 8, 1, palette, {2, 1, 0, 0, 1, 0, 1, 2, 0, 1}, 3)),
            picture({2, 2, 3}, {255, 0, 0, 0, 0, 255, 0, 255, 0, 0, 255, 0}));
  EXPECT_EQ(decode(bmp(4, 1, 4, 2, palette, {0, 3, 0x01, 0x20, 1, 0x10, 0, 1}, 3)),
            picture({1, 4, 3}, {255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 255, 0}));
}

TEST(ImageDecoder, AbsurdHeaders) {
  expect_refused({}, "no BMP, JPEG, PNG, PNM or WebP image");
  expect_refused(from_text("GIF89a"), "no BMP, JPEG, PNG, PNM or WebP image");
  expect_refused(from_text({"II*\0", 4}), "TIFF images are not supported");
  expect_refused(from_hex("0000000c6a5020200d0a870a"), "JPEG 2000 images are not supported");
  expect_refused(from_text("P5 0 4 255 "), "0 x 4 pixels");
  expect_refused(from_text("P5 99999999999999999999 4 255 "), "is larger than");
  expect_refused(from_text("P5 100000 100000 255 "), "100000 x 100000 pixels");
  expect_refused(from_text("P5 16000 16000 255 "), "cut off");
  expect_refused(from_text("P2 16000 16000 255 1 2"), "cannot hold");
  expect_refused(from_text("P2 1 1 0 0"), "largest sample is 0");
  expect_refused(from_text("P6 1 1 x"), "a number is missing at byte 7");
  expect_refused(bmp(16000, 16000, 24, 0, {}, {}), "cut off");
  expect_refused(bmp(1, std::numeric_limits<int32_t>::min(), 24, 0, {}, {}), "1 x 2147483648 pixels");
  expect_refused(bmp(-1, 1, 24, 0, {}, {}), "-1 x 1 pixels");
  expect_refused(bmp(1, 1, 7, 0, {}, {0, 0, 0, 0}), "7 bits a pixel");
  expect_refused(bmp(1, 1, 8, 0, palette, {3, 0, 0, 0}, 3), "color 3 of a palette of 3");
  expect_refused(bmp(2, 1, 8, 1, palette, {3, 1, 0, 1}, 3), "a run leaves the image");
  expect_refused(bmp(2, 1, 8, 1, palette, {0, 2, 255, 255, 1, 1, 0, 1}, 3), "a run leaves the image");
  Bytes png = from_hex(png_file);
  png[18] = 0x7F;  // the width, which the checksum covers
  expect_refused(png, "the PNG image cannot be decoded");
}

TEST(ImageDecoder, PngSizesAreCheckedBeforeTheyAreAllocated) {
  // 16000 x 16000 with the right checksum of its header, and the data of 2 x 2 pixels.
  Bytes png = from_hex(png_file);
  const Bytes header = from_hex("00003e8000003e800802000000ce1c4889");
  std::copy(header.begin(), header.end(), png.begin() + 16);
  expect_refused(png, "cannot hold its 16000 x 16000 pixels");
}

TEST(ImageDecoder, CutOffFilesAreRefused) {
  const Bytes files[] = {from_hex(png_file),
                         from_hex(webp_file),
                         from_hex(gray_jpeg_file),
                         from_hex(color_jpeg_file),
                         from_text("P6 2 2 255\n\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c"),
                         bmp(2, 2, 24, 0, {}, {255, 0, 0, 30, 20, 10, 9, 9, 0, 0, 255, 0, 255, 0}),
                         bmp(2, 1, 8, 1, palette, {2, 1, 0, 1}, 3)};
  for (const Bytes& file : files)
    for (size_t size = 0; size < file.size(); ++size)
      EXPECT_THROW(decode({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}), Error)
          << size << " bytes of " << file.size() << " that start with " << file[0];
}

TEST(ImageDecoder, DamagedFilesDecodeOrAreRefused) {
  const size_t largest = largest_buffer();
  set_largest_buffer(1 << 16);  // pictures that are large and possible take long
  Random random = test_random();
  const Bytes files[] = {from_hex(png_file), from_hex(webp_file), from_hex(gray_jpeg_file), from_hex(color_jpeg_file),
                         bmp(4, 1, 4, 2, palette, {0, 3, 0x01, 0x20, 1, 0x10, 0, 1}, 3)};
  int decoded = 0, refused = 0;
  for (int round = 0; round < 1000; ++round) {
    Bytes file = files[static_cast<size_t>(round) % std::size(files)];
    for (int64_t i = random.integer(1, 3); i > 0; --i)
      file[static_cast<size_t>(random.integer(2, static_cast<int64_t>(file.size()) - 1))] =
          static_cast<uint8_t>(random.integer(0, 255));
    try {
      decode(file);
      ++decoded;
    } catch (const Error&) {
      ++refused;
    }
  }
  set_largest_buffer(largest);
  EXPECT_GT(decoded, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace camshaft::ops::image_decoder_test
