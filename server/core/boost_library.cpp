// Asio's and Beast's own code, compiled once: BOOST_ASIO_SEPARATE_COMPILATION in server/CMakeLists.txt.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
