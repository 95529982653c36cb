// The body of an answer as Beast sends it: a text and then tensors from where they are, in one gathered write.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <utility>
#include <vector>

#include "server/http/exchange.h"

namespace camshaft::server {

/// A "Body" as Beast's documentation defines it.
struct ReplyBody {
  struct value_type {
    std::string text;
    std::vector<Bytes> tensors;
    std::vector<boost::asio::const_buffer> pieces;  ///< of both; made once they are where they stay

    void gather() {
      pieces.clear();
      if (!text.empty()) pieces.emplace_back(text.data(), text.size());
      for (const Bytes& tensor : tensors)
        if (!tensor.span.empty()) pieces.emplace_back(tensor.span.data(), tensor.span.size());
    }
  };

  static uint64_t size(const value_type& body) {
    uint64_t total = 0;
    for (const auto& piece : body.pieces) total += piece.size();
    return total;
  }

  class writer {
   public:
    /// A view: copies of it are cheap.
    struct const_buffers_type {
      using value_type = boost::asio::const_buffer;
      using const_iterator = const value_type*;
      const value_type *first, *last;
      const_iterator begin() const { return first; }
      const_iterator end() const { return last; }
    };

    template <bool isRequest, class Fields>
    writer(const boost::beast::http::header<isRequest, Fields>&, const value_type& body) : body_(body) {}
    void init(boost::beast::error_code& error) { error = {}; }
    boost::optional<std::pair<const_buffers_type, bool>> get(boost::beast::error_code& error) {
      error = {};
      const auto* first = body_.pieces.data();
      return {{const_buffers_type{first, first + body_.pieces.size()}, false}};
    }

   private:
    const value_type& body_;
  };
};

}  // namespace camshaft::server
