// WebP, lossy and lossless, through libwebp.
#include <webp/decode.h>

#include "reference/pictures/picture.h"

namespace camshaft::ops {

Tensor decode_webp(Bytes file) {
  constexpr const char* format = "WebP";
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data(), file.size(), &features) != VP8_STATUS_OK)
    fail_picture(format, "its header is malformed or cut off");
  if (features.has_animation) fail_picture(format, "it is an animation");
  Tensor out = new_picture(format, features.width, features.height, 3);
  if (!WebPDecodeRGBInto(file.data(), file.size(), out.as_mutable<uint8_t>(), out.bytes(), features.width * 3))
    fail_picture(format, "its data is malformed or cut off");
  return out;
}

}  // namespace camshaft::ops
