#include "server/grpc/grpc_server.h"

namespace camshaft::server {

class GrpcServer::State {};

GrpcServer::GrpcServer(Server&, GrpcOptions) {}
GrpcServer::~GrpcServer() = default;
void GrpcServer::start() { throw ServerError(StatusCode::unsupported, "the gRPC front end is not there yet"); }
void GrpcServer::stop() {}
uint16_t GrpcServer::port() const { return 0; }

}  // namespace camshaft::server
